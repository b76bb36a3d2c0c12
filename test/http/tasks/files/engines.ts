import { randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import pg from 'pg'
import type { TasksOptions } from 'longhaul'
import { FolderBlobs } from 'longhaul/files'
import { memory } from 'longhaul/memory'
import { postgres, type PostgresBlobs } from 'longhaul/postgres'
import { redis } from 'longhaul/redis'

/** The parts that tasks need, and a view of the blobs that clients do not have. */
export interface FilesEngine {
  readonly parts: Required<Pick<TasksOptions, 'engine' | 'store' | 'blobs'>>
  /** Number of blobs that exist, complete or not. */
  readonly blobCount: () => Promise<number>
  readonly close: () => Promise<void>
}

/** Everything in this process. */
export async function memoryEngine(): Promise<FilesEngine> {
  const parts = memory()
  return {
    parts,
    blobCount: async () => parts.blobs.usage().blobs,
    close: async () => {
      await parts.blobs.close()
      await parts.store.close()
    },
  }
}

/** Tasks on Redis, files in a folder. */
export async function redisEngine(url: string): Promise<FilesEngine> {
  const name = randomBytes(6).toString('hex')
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-files-'))
  const client = new Redis(url, { maxRetriesPerRequest: null })
  const { engine, store } = redis({ client, namespace: name })
  const blobs = new FolderBlobs(folder, { shared: true })
  return {
    parts: { engine, store, blobs },
    blobCount: async () => readdirSync(folder).length,
    close: async () => {
      await blobs.close()
      await store.close()
      client.disconnect()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Everything in one PostgreSQL. */
export async function postgresEngine(url: string): Promise<FilesEngine> {
  const schema = `files_${randomBytes(6).toString('hex')}`
  const pool = new pg.Pool({ connectionString: url, connectionTimeoutMillis: 20_000 })
  const parts = postgres({ pool, schema, timeoutMs: 15_000 })
  return {
    parts,
    blobCount: () => countVersions(pool, schema, parts.blobs),
    close: async () => {
      await parts.blobs.close()
      await parts.store.close()
      await pool.end()
    },
  }
}

/** Sweeps first, because deleted blobs leave rows until then. */
async function countVersions(pool: pg.Pool, schema: string, blobs: PostgresBlobs): Promise<number> {
  while (await blobs.sweep());
  const { rows } = await pool.query<{ count: string }>(
    `select count(*) from ${schema}.blob_versions`,
  )
  return Number(rows[0]?.count)
}
