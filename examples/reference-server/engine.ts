import { createHash } from 'node:crypto'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import pg from 'pg'
import type { TaskEngine } from 'longhaul/engine'
import type { Blobs, Store } from 'longhaul/stores'
import { FolderBlobs } from 'longhaul/files'
import { memory } from 'longhaul/memory'
import { postgres } from 'longhaul/postgres'
import { redis } from 'longhaul/redis'

/** Settings of the storage from the environment. */
export interface EngineConfig {
  /** Redis with the tasks. Default: they are where `database` says. */
  readonly redisUrl?: string | undefined
  /**
   * Users: `memory`, `pglite`, or a `postgres://` or `redis://` address. Without Redis, a `postgres://` address also has the
   * tasks and blobs; otherwise they are in this process. Default: the Redis if there is one, else `memory`.
   */
  readonly database?: string
  /** With Redis: the folder of uploads and reports, which all processes see. Default: one for this Redis in the folder for temporary files. */
  readonly blobsFolder?: string | undefined
}

/** Storage and execution of tasks. */
export interface Engine {
  readonly engine: TaskEngine
  readonly store: Store
  /** Uploads until their tasks have read them, and reports. */
  readonly blobs: Blobs
  /** Closes the store and the connections. The tasks close their engine themselves. */
  readonly close: () => Promise<void>
}

/** Time that closing a pool may take while PostgreSQL does not answer, in milliseconds. */
const END_MS = 1000

/** The work of a killed worker starts again within 10 s: after its lease, once the next search has found it. */
const LEASE_MS = 8000

/** True for the address of a PostgreSQL. */
export function isPostgres(database: string): boolean {
  return /^postgres(?:ql)?:\/\//.test(database)
}

/**
 * Opens the parts that tasks need. With Redis or PostgreSQL, many processes share them; otherwise they are in this process.
 * `web`: the process answers polls, which then share their round trips to Redis.
 */
export function openEngine({ redisUrl, database = 'memory', blobsFolder }: EngineConfig, { web }: { readonly web: boolean }): Engine {
  if (redisUrl !== undefined) return openRedis(redisUrl, blobsFolder ?? defaultFolder(redisUrl), web)
  return isPostgres(database) ? openPostgres(database) : openMemory()
}

function openMemory(): Engine {
  const { engine, store, blobs } = memory()
  return {
    engine, store, blobs,
    close: async () => {
      await blobs.close()
      await store.close()
    },
  }
}

function openPostgres(connectionString: string): Engine {
  const report = reporter('PostgreSQL')
  const pool = new pg.Pool({ connectionString, max: 10, connectionTimeoutMillis: 2000, keepAlive: true, application_name: 'longhaul reference server' })
  pool.on('error', report)
  const { engine, store, blobs } = postgres({ pool, leaseMs: LEASE_MS })
  return {
    engine, store, blobs,
    close: async () => {
      await blobs.close()
      await store.close()
      await endPool(pool)
    },
  }
}

/** Closes a pool. Resolves although the server does not answer; `main.ts` then ends the process. */
export async function endPool(pool: pg.Pool): Promise<void> {
  await Promise.race([pool.end(), new Promise((resolve) => { setTimeout(resolve, END_MS).unref() })])
}

function openRedis(redisUrl: string, blobsFolder: string, web: boolean): Engine {
  const retryStrategy = (tried: number): number => Math.min(100 * tried, 1000)
  // BullMQ makes its own connection of a client with auto-pipelining. A worker alone does best with one client for both.
  const client = new Redis(redisUrl, { maxRetriesPerRequest: null, enableAutoPipelining: web, retryStrategy })
  const report = reporter('Redis')
  client.on('error', report)
  const blobs = new FolderBlobs(blobsFolder, { shared: true })
  const { engine, store } = redis({ client, leaseMs: LEASE_MS, onError: report })
  return {
    engine, store, blobs,
    close: async () => {
      await blobs.close()
      await store.close()
      client.disconnect()
    },
  }
}

/** The same for all processes of one user on this machine that have the same Redis. */
export function defaultFolder(redisUrl: string): string {
  const name = createHash('sha256').update(`${userInfo().uid} ${redisUrl}`).digest('hex').slice(0, 16)
  return join(tmpdir(), `longhaul-blobs-${name}`)
}

/** Reports what is wrong with a server once, not at every try to reach it. */
function reporter(server: string): (error: Error) => void {
  let last = ''
  return ({ message }) => {
    if (message !== last) console.error(`${server}: ${message}`)
    last = message
  }
}
