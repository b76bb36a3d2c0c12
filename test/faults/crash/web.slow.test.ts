import { crashCluster } from '../kit/crash-cluster.js'
import { crashRedis } from './redis.js'
import { webSuite } from './web-suite.js'

const database = await crashRedis()
webSuite(database, await crashCluster(database))
