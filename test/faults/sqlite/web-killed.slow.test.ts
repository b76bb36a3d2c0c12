import { crashCluster } from '../kit/crash-cluster.js'
import { crashSqlite } from '../crash/sqlite.js'
import { webSuite } from '../crash/web-suite.js'

const database = await crashSqlite()
webSuite(database, await crashCluster(database))
