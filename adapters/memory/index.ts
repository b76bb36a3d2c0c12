import { systemClock, type Clock } from '../../src/runtime/clock.js'
import { checkNames } from '../../src/runtime/option-names.js'
import { MemoryBlobs, type MemoryBlobsOptions } from './blobs.js'
import { MemoryQueue, type MemoryQueueOptions } from './queue.js'
import { MemoryStore, type MemoryStoreOptions } from './store.js'
import { MemoryTaskIndex } from './task-index.js'

export { MemoryBlobs, type MemoryBlobsOptions } from './blobs.js'
export { MemoryQueue, type MemoryQueueOptions } from './queue.js'
export { MemoryStore, type MemoryStoreOptions } from './store.js'
export { MemoryTaskIndex } from './task-index.js'
export type { Clock } from '../../src/runtime/clock.js'

/** What `memory()` takes. */
export interface MemoryOptions extends Omit<MemoryStoreOptions, 'now'>, MemoryQueueOptions {
  /** Limits of the blobs. */
  readonly blobs?: Omit<MemoryBlobsOptions, 'now'>
  /**
   * Time and timers of the store, the queue, the blobs and the index. Tests pass `testClock()` of
   * `longhaul/testing`. Default: the monotonic clock of the process.
   */
  readonly clock?: Clock
}

const BLOBS = { maxBytes: 0 } satisfies Record<keyof NonNullable<MemoryOptions['blobs']>, 0>
const KNOWN = {
  maxEntries: 0, maxBytes: 0, maxCounters: 0, maxWatches: 0, maxQueued: 0, maxQueuedBytes: 0,
  clock: 0, blobs: 0,
} satisfies Record<keyof MemoryOptions, 0>

/** What `memory()` makes. */
export interface MemoryEngine {
  readonly store: MemoryStore
  readonly queue: MemoryQueue
  readonly blobs: MemoryBlobs
  readonly index: MemoryTaskIndex
}

/**
 * A store, a queue, an index of unfinished tasks and blobs in the memory of this process:
 * everything that one process needs. Close all when the server stops, the queue first, because what
 * it drains still writes to the others.
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
