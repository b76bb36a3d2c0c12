import { crashCluster } from '../kit/crash-cluster.js'
import { crashSqlite } from '../crash/sqlite.js'
import { workerSuite } from '../crash/worker-suite.js'

const database = await crashSqlite()
workerSuite(database, await crashCluster(database))
