import { randomBytes } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import pg from 'pg'
import type { EngineFixture, EngineSettings } from 'longhaul/conformance'
import type { EngineConformanceOptions } from '../../conformance/engine/context.js'
import { Database, type DatabaseOptions } from '../../adapters/postgres/database.js'
import { PostgresTaskEngine } from '../../adapters/postgres/task-engine/engine.js'
import { TcpProxy } from '../servers/tcp-proxy.js'

/** Options of the suite. A busy machine adds to the times of a server. */
export const engineOptions: EngineConformanceOptions = {
  toleranceMs: 200, leaseMs: 1200, timeoutMs: 20_000, hasTransactions: true, concurrency: 8,
}

type Options = Omit<DatabaseOptions, 'pool' | 'schema'>

/** Engines on a server, each with a pool and a network of its own. */
export function serverFixture(url: string, settings: EngineSettings, options: Options = {}): EngineFixture {
  const schema = newSchema()
  const ends: (() => Promise<void>)[] = []
  const own = new pg.Pool({ connectionString: url, max: 2 })
  return {
    open: async () => {
      const { hostname, port } = new URL(url)
      const proxy = await TcpProxy.to(Number(port))
      const through = new URL(url)
      through.host = `${hostname}:${String(proxy.port)}`
      const pool = new pg.Pool({ connectionString: through.href, max: 6 })
      pool.on('error', () => undefined)
      const engine = engineOn({ pool, schema, ...options }, settings)
      ends.push(async () => {
        await engine.close({ drainMs: 0 })
        proxy.close()
        await pool.end()
      })
      const thaw = async (): Promise<void> => {
        proxy.heal()
        // The connections that lost something end. The pool notices that, and opens others.
        for (let isBack = false; !isBack;) {
          await setTimeout(50)
          isBack = await engine.now().then(() => true, () => false)
        }
      }
      // Creates the tables, which takes a while on a busy machine.
      await engine.now()
      return { engine, freeze: () => { proxy.swallow() }, thaw, kill: () => { proxy.close() } }
    },
    begin: async () => {
      const client = await own.connect()
      await client.query('BEGIN')
      const end = async (statement: string): Promise<void> => {
        await client.query(statement)
        client.release()
      }
      return { transaction: client, commit: () => end('COMMIT'), rollback: () => end('ROLLBACK') }
    },
    snapshot: () => snapshotOf(own, schema),
    close: async () => {
      await Promise.all(ends.map((end) => end()))
      await own.query(`DROP SCHEMA IF EXISTS ${schema} CASCADE`)
      await own.end()
    },
  }
}

/** Copies the tables of the tasks. The result puts the copies back. */
async function snapshotOf(pool: pg.Pool, schema: string): Promise<() => Promise<void>> {
  const tables = ['task_rows', 'task_callers', 'task_pools', 'task_begins'].map((name) => `${schema}.${name}`)
  for (const table of tables) await pool.query(`CREATE TABLE ${table}_copy AS TABLE ${table}`)
  return async () => {
    // In one statement, which commits by itself.
    const inserts = tables.map((table) => `INSERT INTO ${table} TABLE ${table}_copy;`).join(' ')
    await pool.query(`DO $$ BEGIN TRUNCATE ${tables.join()}; ${inserts} END $$`)
  }
}

function engineOn(options: DatabaseOptions, { leaseMs, share }: EngineSettings): PostgresTaskEngine {
  const { tasks: maxEntries = 100_000, bytes: maxBytes = 64 * 2 ** 20 } = share ?? {}
  const database = new Database({ timeoutMs: 3000, ...options })
  return new PostgresTaskEngine(database, { leaseMs, limits: { maxEntries, maxBytes } })
}

function newSchema(): string {
  return `engine_${randomBytes(6).toString('hex')}`
}
