import { crashCluster } from '../kit/crash-cluster.js'
import { crashPostgres } from '../crash/postgres.js'
import { webSuite } from '../crash/web-suite.js'

const database = await crashPostgres()
webSuite(database, await crashCluster(database))
