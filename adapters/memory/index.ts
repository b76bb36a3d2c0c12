import { systemClock, type Clock } from '../../src/runtime/clock.js'
import { checkNames } from '../../src/runtime/option-names.js'
import { MemoryBlobs, type MemoryBlobsOptions } from './blobs.js'
import { MemoryQueue } from './queue.js'
import type { MemoryQueueOptions } from './queue-options.js'
import { MemoryStore, type MemoryStoreOptions } from './store.js'
import { MemoryTaskIndex } from './task-index.js'

export { MemoryBlobs, type MemoryBlobsOptions } from './blobs.js'
export { MemoryQueue } from './queue.js'
export { type MemoryQueueOptions } from './queue-options.js'
export { MemoryStore, type MemoryStoreOptions } from './store.js'
export { MemoryTaskIndex, type MemoryTaskIndexOptions } from './task-index.js'
export type { Clock } from '../../src/runtime/clock.js'

/** Options of `memory`. */
export interface MemoryOptions extends Omit<MemoryStoreOptions, 'now'>, MemoryQueueOptions {
  /** Options of the blobs. They use the clock of the store. */
  readonly blobs?: Omit<MemoryBlobsOptions, 'now'>
  /**
   * Time and timers of the store, the queue, the blobs and the index. Tests pass `testClock()` of
   * `longhaul/testing`. Default: the monotonic clock of the process.
   */
  readonly clock?: Clock
}

const BLOBS = { maxBytes: 0 } satisfies Record<keyof NonNullable<MemoryOptions['blobs']>, 0>
const KNOWN = {
  maxEntries: 0, maxBytes: 0, maxEntriesPerOwner: 0, maxBytesPerOwner: 0, maxCounters: 0,
  maxWatches: 0, maxQueued: 0, maxQueuedBytes: 0, clock: 0, blobs: 0,
} satisfies Record<keyof MemoryOptions, 0>

/** Result of `memory`. */
export interface MemoryEngine {
  readonly store: MemoryStore
  readonly queue: MemoryQueue
  readonly blobs: MemoryBlobs
  readonly index: MemoryTaskIndex
}

/**
 * Creates a store, a queue, blobs and a task index in the memory of this process.
 * This is all that a single process needs. When the server stops, close the queue first, because
 * draining jobs still write to the others.
 *
 * @example
 * const tasks = createTasks({ ...memory(), definitions: [report] })
 *
 * @throws {TypeError} An option is unknown or out of range.
 */
export function memory(options: MemoryOptions = {}): MemoryEngine {
  checkNames('memory', options, KNOWN)
  const { blobs = {}, clock = systemClock, maxQueued, maxQueuedBytes, ...store } = options
  checkNames('memory: blobs', blobs, BLOBS)
  const now = (): number => clock.now()
  const limits = {
    ...maxQueued !== undefined && { maxQueued },
    ...maxQueuedBytes !== undefined && { maxQueuedBytes },
  }
  return {
    store: new MemoryStore({ ...store, now }),
    queue: new MemoryQueue({ ...limits, clock }),
    blobs: new MemoryBlobs({ ...blobs, now }),
    index: new MemoryTaskIndex({ now }),
  }
}
