// Opens longhaul on Redis, PostgreSQL or SQLite, as one process would.
import { Redis } from 'ioredis'
import { FolderBlobs } from 'longhaul/files'
import { memory, MemoryBlobs } from 'longhaul/memory'
import { postgres } from 'longhaul/postgres'
import { redis } from 'longhaul/redis'
import { sqlite } from 'longhaul/sqlite'
import pg from 'pg'
import { openSqlite } from './sqlite.js'

export interface OpenOptions {
  /** Namespace of the keys, or schema of the tables. The default of the package without it. */
  readonly name?: string
  readonly leaseMs?: number
  readonly timeoutMs?: number
  /** Maximum number of connections to PostgreSQL. Default 10. */
  readonly max?: number
  /** Of SQLite. Default `full`. */
  readonly synchronous?: 'full' | 'normal'
  /** Folder of the blobs beside Redis. Without it they are in memory. */
  readonly folder?: string
}

/** Redis. */
export function openRedis(url: string, { name, folder, max: _, ...options }: OpenOptions = {}) {
  const client = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 50 })
  client.on('error', () => undefined)
  const { engine, store } = redis({ client, ...options, ...name !== undefined && { namespace: name } })
  const blobs = folder === undefined ? new MemoryBlobs() : new FolderBlobs(folder, { shared: true })
  return {
    client, parts: { engine, store, blobs },
    close: async () => {
      await blobs.close()
      await store.close()
      client.disconnect()
    },
  }
}

/** PostgreSQL. */
export function openPostgres(url: string, { name, max = 10, folder: _, ...options }: OpenOptions = {}) {
  const pool = new pg.Pool({ connectionString: url, connectionTimeoutMillis: 20_000, max })
  pool.on('error', () => undefined)
  const parts = postgres({ pool, ...options, ...name !== undefined && { schema: name } })
  return {
    pool, parts,
    close: async () => {
      await parts.blobs.close()
      await parts.store.close()
      await pool.end()
    },
  }
}

/** SQLite: `sqlite:` and the path of the file. Each name has a file of its own. */
export function openSqliteFile(url: string, { name = '', max: _, folder: __, ...options }: OpenOptions = {}) {
  const database = openSqlite(`${url.slice('sqlite:'.length)}${name}`)
  const parts = sqlite({ database, ...options })
  return {
    database, parts,
    close: async () => {
      await parts.blobs.close()
      await parts.store.close()
      database.close()
    },
  }
}

/** What the URL names; memory without one. `close` ends the connections, after the tasks. */
export function openDatabase(url: string | undefined, options: OpenOptions = {}) {
  if (url === undefined) {
    const parts = memory()
    return { parts, close: () => parts.store.close() }
  }
  if (url.startsWith('sqlite:')) return openSqliteFile(url, options)
  return url.startsWith('postgres') ? openPostgres(url, options) : openRedis(url, options)
}
