import * as runner from 'node:test'
import { engineConformance } from 'longhaul/conformance'
import { postgresForFile } from '../servers/postgres-server.js'
import { engineOptions, serverFixture } from './postgres-engine-fixture.js'

const server = await postgresForFile({ settings: { max_connections: 300 } })
const serializable = new URL(server.url)
serializable.searchParams.set('options', '-c default_transaction_isolation=serializable')

engineConformance(runner, async (settings) => serverFixture(server.url, settings), {
  ...engineOptions, title: 'PostgresTaskEngine on a server',
})

engineConformance(runner, async (settings) => (
  serverFixture(serializable.href, settings, { preparedStatements: true })
), {
  ...engineOptions,
  title: 'PostgresTaskEngine on a database that is serializable by default, with prepared statements',
})
