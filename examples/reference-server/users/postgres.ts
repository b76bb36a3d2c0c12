import { httpError } from 'longhaul'
import pg from 'pg'
import { endPool } from '../storage.js'
import { sqlState, type Database, type Sql } from './database.js'

/** Maximum time that a request waits for a connection, and a statement for its result, in milliseconds. */
const CONNECT_MS = 5000
const STATEMENT_MS = 60_000

/** A PostgreSQL at an address. Connections are opened on demand. Without one, requests get 503. */
export function openPostgres(connectionString: string): Database {
  const pool = new pg.Pool({
    connectionString, max: 10, connectionTimeoutMillis: CONNECT_MS, statement_timeout: STATEMENT_MS, query_timeout: STATEMENT_MS + CONNECT_MS, application_name: 'longhaul reference server', allowExitOnIdle: true,
  })
  let last = ''
  // Errors of idle connections. The pool replaces them.
  const report = ({ message }: Error): void => {
    if (message !== last) console.error(`PostgreSQL: ${message}`)
    last = message
  }
  pool.on('error', report)
  // Without a listener, a connection that breaks while it is in use would end the process.
  pool.on('connect', (client) => { client.on('error', report) })

  const inside = (client: pg.PoolClient): Sql => ({
    query: async (text, values = []) => (await orUnavailable(client.query<Record<string, unknown>>(text, [...values]))).rows,
  })
  return {
    async query(text, values = []) {
      const client = await orUnavailable(pool.connect())
      let broken: Error | undefined
      try {
        const result = client.query<Record<string, unknown>>(text, [...values])
        return (await orUnavailable(result, { isWrite: !text.startsWith('SELECT') })).rows
      } catch (error) {
        broken = error as Error
        throw error
      } finally {
        client.release(broken)
      }
    },
    transaction: async (work) => {
      const client = await orUnavailable(pool.connect())
      let broken: Error | undefined
      try {
        await orUnavailable(client.query('BEGIN'))
        const result = await work(inside(client))
        await orUnavailable(client.query('COMMIT'), { isWrite: true })
        return result
      } catch (error) {
        await client.query('ROLLBACK').catch((failure: unknown) => { broken = failure as Error })
        throw error
      } finally {
        client.release(broken)
      }
    },
    close: () => endPool(pool),
  }
}

/**
 * Throws a 503 if a retry may succeed, which also tells bulk tasks that nothing was written: for
 * errors of the connection, and for the SQLSTATE classes 08 (connection), 40 (deadlock), 53
 * (resources) and 57 (shutdown, time-out). If the connection breaks while a write or COMMIT is
 * under way, nobody knows the outcome, and the error stays as it is.
 */
async function orUnavailable<T>(asked: Promise<T>, { isWrite = false } = {}): Promise<T> {
  try {
    return await asked
  } catch (error) {
    const state = sqlState(error)
    const passes = state === undefined ? !isWrite : /^(?:08|40|53|57)/.test(state)
    throw passes ? httpError('service_unavailable', { cause: error, headers: { 'retry-after': '5' } }) : error
  }
}
