import { crashCluster } from './cluster.js'
import { crashRedis } from './redis.js'
import { webSuite } from './web-suite.js'

const database = await crashRedis()
webSuite(database, await crashCluster(database))
