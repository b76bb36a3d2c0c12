import { readdirSync } from 'node:fs'
import { Redis } from 'ioredis'
import pg from 'pg'
import { BullMQQueue } from 'longhaul/bullmq'
import { FolderBlobs } from 'longhaul/files'
import { postgres, PostgresQueue } from 'longhaul/postgres'
import { redis } from 'longhaul/redis'

/** The database and the names that the processes of one test share. */
export interface Place {
  readonly url: string
  readonly name: string
  readonly folder: string
}

const TIMES = { lockDurationMs: 2000, stalledIntervalMs: 1000, maxStalledCount: 1000 }

/** Opens what tasks need, and a view of the blobs. */
export function openParts(kind: string, { url, name, folder }: Place) {
  if (kind === 'redis') {
    const client = new Redis(url)
    const connection = new Redis(url, { maxRetriesPerRequest: null })
    const { store, index } = redis({ client, namespace: name })
    const blobs = new FolderBlobs(folder, { shared: true })
    return {
      parts: {
        store, index, blobs,
        queue: new BullMQQueue({ connection, name, ...TIMES }),
      },
      // Another process removes what a killed one has begun after a day.
      blobCount: async () => readdirSync(folder).filter((file) => file.endsWith('.blob')).length,
      close: async () => {
        await blobs.close()
        await store.close()
        client.disconnect()
        connection.disconnect()
      },
    }
  }
  const pool = new pg.Pool({ connectionString: url, connectionTimeoutMillis: 20_000 })
  const { store, index, blobs } = postgres({ pool, schema: name, timeoutMs: 15_000 })
  return {
    parts: { store, index, blobs, queue: new PostgresQueue({ pool, schema: `${name}_jobs`, ...TIMES }) },
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
