import { crashCluster } from '../kit/crash-cluster.js'
import { crashRedis } from './redis.js'
import { workerSuite } from './worker-suite.js'

const database = await crashRedis()
workerSuite(database, await crashCluster(database))
