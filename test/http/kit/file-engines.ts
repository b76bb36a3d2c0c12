import { randomBytes } from 'node:crypto'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type pg from 'pg'
import type { TasksOptions } from 'longhaul'
import { memory } from 'longhaul/memory'
import type { PostgresBlobs } from 'longhaul/postgres'
import { openPostgres, openRedis } from '../../servers/open-database.js'

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
  const folder = mkdtempSync(join(tmpdir(), 'longhaul-files-'))
  const { parts, close } = openRedis(url, { name: randomBytes(6).toString('hex'), folder })
  return {
    parts,
    blobCount: async () => readdirSync(folder).length,
    close: async () => {
      await close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Everything in one PostgreSQL. */
export async function postgresEngine(url: string): Promise<FilesEngine> {
  const name = `files_${randomBytes(6).toString('hex')}`
  const { pool, ...opened } = openPostgres(url, { name, timeoutMs: 15_000 })
  return { ...opened, blobCount: () => countVersions(pool, name, opened.parts.blobs) }
}

/** Sweeps first, because deleted blobs leave rows until then. */
async function countVersions(pool: pg.Pool, schema: string, blobs: PostgresBlobs): Promise<number> {
  while (await blobs.sweep());
  const { rows } = await pool.query<{ count: string }>(
    `select count(*) from ${schema}.blob_versions`,
  )
  return Number(rows[0]?.count)
}
