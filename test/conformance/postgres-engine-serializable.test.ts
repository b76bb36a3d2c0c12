import * as runner from 'node:test'
import { engineConformance } from 'longhaul/conformance'
import { postgresForFile } from '../servers/postgres-server.js'
import { engineOptions, serverFixture } from './postgres-engine-fixture.js'

const oldest = await postgresForFile({ settings: { max_connections: 300 }, major: 13 })
const serializable = new URL(oldest.url)
serializable.searchParams.set('options', '-c default_transaction_isolation=serializable')

engineConformance(runner, async (needs) => (
  serverFixture(serializable.href, needs, { preparedStatements: true })
), {
  ...engineOptions,
  title: `PostgresTaskEngine on PostgreSQL ${oldest.version}, serializable by default, with prepared statements`,
})
