import { crashCluster } from '../kit/crash-cluster.js'
import { crashPostgres } from '../crash/postgres.js'
import { workerSuite } from '../crash/worker-suite.js'

const database = await crashPostgres()
workerSuite(database, await crashCluster(database))
