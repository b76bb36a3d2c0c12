import { PGlite } from '@electric-sql/pglite'
import * as runner from 'node:test'
import { after, describe } from 'node:test'
import { storeConformance } from 'longhaul/conformance'
import { postgres } from 'longhaul/postgres'
import pg from 'pg'
import { startPostgres } from '../servers/postgres-server.js'

describe('PostgresStore on PGlite', async () => {
  const pool = await PGlite.create()
  storeConformance(runner, async () => ({ store: postgres({ pool }).store }), {
    toleranceMs: 200, title: 'on PGlite',
  })
})

const url = process.env['DATABASE_URL']
describe('PostgresStore on a server', { concurrency: 8 }, async () => {
  const server = url === undefined ? await startPostgres() : undefined
  const pool = new pg.Pool({ connectionString: url ?? server?.url, allowExitOnIdle: true })
  after(async () => {
    await pool.end()
    await server?.stop()
  })
  storeConformance(runner, async () => ({
    store: postgres({ pool }).store, second: postgres({ pool }).store,
  }), { toleranceMs: 200 })
})
