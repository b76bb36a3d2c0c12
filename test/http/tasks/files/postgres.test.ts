import { postgresUrl } from '../../../servers/postgres-url.js'
import { postgresEngine } from '../../kit/file-engines.js'
import { filesSuite } from './suite.js'

const url = await postgresUrl()
filesSuite('PostgreSQL', () => postgresEngine(url))
