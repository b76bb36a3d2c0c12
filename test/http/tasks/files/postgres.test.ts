import { postgresUrl } from '../../../servers/postgres-url.js'
import { postgresEngine } from '../../kit/file-engines.js'
import { partialFilesSuite } from './partial-suite.js'
import { filesSuite } from './suite.js'

const url = await postgresUrl()
filesSuite('PostgreSQL', () => postgresEngine(url))
partialFilesSuite('PostgreSQL', () => postgresEngine(url))
