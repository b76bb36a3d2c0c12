import { createHash } from 'node:crypto'
import { tmpdir, userInfo } from 'node:os'
import { join } from 'node:path'
import { Redis } from 'ioredis'
import type { Blobs, Store, TaskIndex } from 'longhaul/stores'
import type { Queue } from 'longhaul/queues'
import { BullMQQueue } from 'longhaul/bullmq'
import { FolderBlobs } from 'longhaul/files'
import { memory, MemoryQueue } from 'longhaul/memory'
import { redis } from 'longhaul/redis'

/** What the environment says of it. */
export interface EngineConfig {
  /** Where records and jobs are; without it, in this process. */
  readonly redisUrl?: string | undefined
  /** With Redis: the folder of uploads and reports, which all processes see. Default: one for this Redis in the folder for temporary files. */
  readonly blobsFolder?: string | undefined
}

/** Where tasks are kept, and what runs them. */
export interface Engine {
  readonly store: Store
  readonly index: TaskIndex
  readonly queue: Queue
  /** Where uploads wait for their tasks, and reports for their readers. */
  readonly blobs: Blobs
  /** Where callbacks wait. */
  readonly callbackQueue: Queue
  /** Lets go of store and connections; the queue goes with its tasks. */
  close(): Promise<void>
}

/** One process and its memory, or with a Redis as many processes as you like. `web`: it answers polls, which share their round trips then. */
export function openEngine({ redisUrl, blobsFolder }: EngineConfig, { web }: { readonly web: boolean }): Engine {
  if (redisUrl === undefined) {
    const { store, index, queue, blobs } = memory()
    return {
      store, index, queue, blobs, callbackQueue: new MemoryQueue(),
      close: async () => {
        await blobs.close()
        await store.close()
      },
    }
  }
  const retryStrategy = (tried: number): number => Math.min(100 * tried, 1000)
  // BullMQ's workers wait at Redis for as long as it takes.
  const jobs = new Redis(redisUrl, { maxRetriesPerRequest: null, retryStrategy })
  // A worker alone does best with one client for both.
  const records = web ? new Redis(redisUrl, { enableAutoPipelining: true, retryStrategy }) : jobs
  const report = reporter()
  const clients = new Set([records, jobs])
  for (const client of clients) client.on('error', report)
  const blobs = new FolderBlobs(blobsFolder ?? defaultFolder(redisUrl), { shared: true })
  const { store, index } = redis({ client: records })
  // The work of a killed worker starts again within 20 s: its lock ends, and the look after that finds it.
  const how = { connection: jobs, lockDurationMs: 8000, stalledIntervalMs: 4000, onError: report }
  const queue = new BullMQQueue(how)
  const callbackQueue = new BullMQQueue({ ...how, name: 'callbacks' })
  return {
    store, index, queue, blobs, callbackQueue,
    close: async () => {
      await blobs.close()
      await store.close()
      for (const client of clients) client.disconnect()
    },
  }
}

/** The same for all processes of one user on this machine that have the same Redis. */
export function defaultFolder(redisUrl: string): string {
  const name = createHash('sha256').update(`${userInfo().uid} ${redisUrl}`).digest('hex').slice(0, 16)
  return join(tmpdir(), `longhaul-blobs-${name}`)
}

/** Says what is wrong with Redis once, not at every try to reach it. */
function reporter(): (error: Error) => void {
  let last = ''
  return ({ message }) => {
    if (message !== last) console.error(`Redis: ${message}`)
    last = message
  }
}
