import { readdirSync } from 'node:fs'
import { Redis } from 'ioredis'
import pg from 'pg'
import { FolderBlobs } from 'longhaul/files'
import { postgres } from 'longhaul/postgres'
import { redis } from 'longhaul/redis'

/** The database and the names that the processes of one test share. */
export interface Place {
  readonly url: string
  readonly name: string
  readonly folder: string
}

/** The default, shortened. */
const LEASE_MS = 2000

/** Opens what tasks need, and a view of the blobs. */
export function openParts(kind: string, { url, name, folder }: Place) {
  if (kind === 'redis') {
    const client = new Redis(url, { maxRetriesPerRequest: null })
    const { engine, store } = redis({ client, namespace: name, leaseMs: LEASE_MS })
    const blobs = new FolderBlobs(folder, { shared: true })
    return {
      parts: { engine, store, blobs },
      // Another process removes what a killed one has begun after a day.
      blobCount: async () => readdirSync(folder).filter((file) => file.endsWith('.blob')).length,
      close: async () => {
        await blobs.close()
        await store.close()
        client.disconnect()
      },
    }
  }
  const pool = new pg.Pool({ connectionString: url, connectionTimeoutMillis: 20_000 })
  const { engine, store, blobs } = postgres({ pool, schema: name, leaseMs: LEASE_MS })
  return {
    parts: { engine, store, blobs },
    blobCount: async () => {
      const { rows } = await pool.query<{ count: string }>(`select count(*) from ${name}.blobs`)
      return Number(rows[0]?.count)
    },
    close: async () => {
      await blobs.close()
      await store.close()
      await pool.end()
    },
  }
}
