import { Redis } from 'ioredis'
import { postgres } from 'longhaul/postgres'
import { redis } from 'longhaul/redis'
import pg from 'pg'

/** Opens the engine and the store of a Redis or PostgreSQL, under a name of their own. */
export function engineOf(url: string, name: string) {
  // The machine may be busy.
  if (url.startsWith('postgres')) {
    const pool = new pg.Pool({ connectionString: url, connectionTimeoutMillis: 20_000 })
    const { engine, store } = postgres({ pool, schema: name, leaseMs: 2000 })
    return { parts: { engine, store }, close: () => pool.end() }
  }
  const client = new Redis(url, { maxRetriesPerRequest: null })
  return {
    parts: redis({ client, namespace: name, leaseMs: 2000 }),
    close: async () => { client.disconnect() },
  }
}
