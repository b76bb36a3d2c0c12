import { createHash } from 'node:crypto'
import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import { Redis } from 'ioredis'
import pg from 'pg'
import type { TaskEngine } from 'longhaul/engine'
import type { Blobs, Store } from 'longhaul/stores'
import { FolderBlobs } from 'longhaul/files'
import { memory } from 'longhaul/memory'
import { postgres } from 'longhaul/postgres'
import { redis } from 'longhaul/redis'
import { sqlite } from 'longhaul/sqlite'
import { isSqlite, openFile, pathOf } from './sqlite-file.js'

/** Settings of the storage from the environment. */
export interface StorageConfig {
  /** Redis with the tasks. Default: they are where `database` says. */
  readonly redisUrl?: string | undefined
  /**
   * Users: `memory`, a file such as `sqlite:./data.db`, or a `postgres://` or `redis://` address. Without Redis, a file or a
   * `postgres://` address also has the tasks and blobs; otherwise they are in this process. Default: the Redis if there is
   * one, else `memory`.
   */
  readonly database?: string
  /** With Redis: the folder of uploads and reports, which all processes see. Default: one for this Redis below the home directory. */
  readonly blobsFolder?: string | undefined
}

/** The parts that keep tasks and files. */
export interface Storage {
  readonly engine: TaskEngine
  readonly store: Store
  /** Uploads until their tasks have read them, and reports. */
  readonly blobs: Blobs
  /** Closes store, blobs and connections. `tasks.close` closes the engine, before this. */
  close(): Promise<void>
}

/** Time that closing a pool may take while PostgreSQL does not answer, in milliseconds. */
const END_MS = 1000

/** True for the address of a PostgreSQL. */
export function isPostgres(database: string): boolean {
  return /^postgres(?:ql)?:\/\//.test(database)
}

/**
 * Opens the parts that tasks need. Many processes share them, unless they are in the memory of this one.
 * `web`: the process answers polls, which then share their round trips to Redis.
 */
export function openStorage({ redisUrl, database = 'memory', blobsFolder }: StorageConfig, { web }: { readonly web: boolean }): Storage {
  if (redisUrl !== undefined) return openRedis(redisUrl, blobsFolder ?? defaultFolder(redisUrl), web)
  if (isSqlite(database)) return openSqlite(pathOf(database))
  return isPostgres(database) ? openPostgres(database) : openMemory()
}

function openMemory(): Storage {
  const { engine, store, blobs } = memory()
  return {
    engine, store, blobs,
    close: async () => {
      await blobs.close()
      await store.close()
    },
  }
}

function openPostgres(connectionString: string): Storage {
  const report = reporter('PostgreSQL')
  const pool = new pg.Pool({ connectionString, max: 10, connectionTimeoutMillis: 2000, keepAlive: true, application_name: 'longhaul reference server' })
  pool.on('error', report)
  const { engine, store, blobs } = postgres({ pool })
  return {
    engine, store, blobs,
    close: async () => {
      await blobs.close()
      await store.close()
      await endPool(pool)
    },
  }
}

function openSqlite(path: string): Storage {
  const database = openFile(path)
  const { engine, store, blobs } = sqlite({ database })
  return {
    engine, store, blobs,
    close: async () => {
      await blobs.close()
      await store.close()
      database.close()
    },
  }
}

/** Closes a pool. Resolves although the server does not answer; `main.ts` then ends the process. */
export async function endPool(pool: pg.Pool): Promise<void> {
  await Promise.race([pool.end(), new Promise((resolve) => { setTimeout(resolve, END_MS).unref() })])
}

function openRedis(redisUrl: string, blobsFolder: string, web: boolean): Storage {
  const retryStrategy = (tried: number): number => Math.min(100 * tried, 1000)
  const client = new Redis(redisUrl, web ? { enableAutoPipelining: true, retryStrategy } : { maxRetriesPerRequest: null, retryStrategy })
  const report = reporter('Redis')
  client.on('error', report)
  const blobs = new FolderBlobs(blobsFolder, { shared: true })
  const { engine, store } = redis({ client })
  return {
    engine, store, blobs,
    close: async () => {
      await blobs.close()
      await store.close()
      client.disconnect()
    },
  }
}

/**
 * The same for all processes of one user on this machine that have the same Redis. It is below the home directory of the
 * user, because any user could make it first in the folder for temporary files.
 */
export function defaultFolder(redisUrl: string, { XDG_STATE_HOME: state = '' }: NodeJS.ProcessEnv = process.env): string {
  const name = createHash('sha256').update(redisUrl).digest('hex').slice(0, 16)
  return join(isAbsolute(state) ? state : join(homedir(), '.local', 'state'), 'longhaul', `blobs-${name}`)
}

/** Reports what is wrong with a server once, not at every try to reach it. */
function reporter(server: string): (error: Error) => void {
  let last = ''
  return ({ message }) => {
    if (message !== last) console.error(`${server}: ${message}`)
    last = message
  }
}
