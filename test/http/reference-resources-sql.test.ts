import { after, before, describe } from 'node:test'
import { startPostgres, type PostgresServer } from '../servers/postgres-server.js'
import { resourcesSuite } from './reference-resources-suite.js'

describe('users in pglite', () => resourcesSuite(async () => 'pglite'))

describe('users in a PostgreSQL', () => {
  let postgres: PostgresServer | undefined
  before(async () => { postgres = await startPostgres() })
  resourcesSuite(async () => postgres?.url ?? '')
  after(() => postgres?.stop())
})
