import { PGlite } from '@electric-sql/pglite'
import * as runner from 'node:test'
import { after, describe } from 'node:test'
import { engineConformance, type EngineConformanceOptions } from 'longhaul/conformance'
import { pgBouncerForFile } from '../servers/pgbouncer.js'
import { postgresForFile } from '../servers/postgres-server.js'
import { pgliteFixture, serverFixture } from './postgres-engine-fixture.js'

// Started before the first test, because that blocks the process.
const server = await postgresForFile({ settings: { max_connections: 300 } })
const pooler = await pgBouncerForFile(server)
const pglite = await PGlite.create()
after(() => pglite.close())

const serializable = new URL(server.url)
serializable.searchParams.set('options', '-c default_transaction_isolation=serializable')

const OPTIONS: EngineConformanceOptions = {
  toleranceMs: 200, leaseMs: 1200, timeoutMs: 20_000, hasTransactions: true,
}

describe('PostgresTaskEngine', () => {
  engineConformance(runner, async (settings) => serverFixture(server.url, settings), {
    ...OPTIONS, title: 'on a server',
  })
  engineConformance(runner, async (settings) => (
    serverFixture(serializable.href, settings, { preparedStatements: true })
  ), { ...OPTIONS, title: 'on a database that is serializable by default' })
  // Without notices.
  engineConformance(runner, async (settings) => serverFixture(pooler.url, settings), {
    ...OPTIONS, title: 'behind PgBouncer in transaction mode', toleranceMs: 1500,
  })
  engineConformance(runner, async (settings) => pgliteFixture(pglite, settings), {
    ...OPTIONS, title: 'on PGlite', hasTransactions: false, concurrency: 2,
  })
})
