import { Redis } from 'ioredis'
import { postgres } from 'longhaul/postgres'
import { redis } from 'longhaul/redis'
import pg from 'pg'

/** Opens the engine and the store of a Redis or PostgreSQL. */
export function openDatabase(url: string, options: { readonly leaseMs?: number } = {}) {
  if (url.startsWith('postgres')) {
    const pool = new pg.Pool({ connectionString: url })
    pool.on('error', () => undefined)
    const { engine, store } = postgres({ pool, ...options })
    return { parts: { engine, store }, close: async () => {
      await store.close()
      await pool.end()
    } }
  }
  const client = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 50 })
  client.on('error', () => undefined)
  const { engine, store } = redis({ client, ...options })
  return { parts: { engine, store }, close: async () => {
    await store.close()
    client.disconnect()
  } }
}
