import { checkNames } from '../../src/runtime/option-names.js'
import { MEMORY_BLOBS, MemoryBlobs, type MemoryBlobsOptions } from './blobs.js'
import { MEMORY_QUEUE, MemoryQueue, type MemoryQueueOptions } from './queue.js'
import { MEMORY_STORE, MemoryStore, type MemoryStoreOptions } from './store.js'
import { MemoryTaskIndex } from './task-index.js'

export { MemoryBlobs, type MemoryBlobsOptions } from './blobs.js'
export { MemoryQueue, type MemoryQueueOptions } from './queue.js'
export { MemoryStore, type MemoryStoreOptions } from './store.js'
export { MemoryTaskIndex } from './task-index.js'

/** What `memory()` takes. */
export interface MemoryOptions extends MemoryStoreOptions, MemoryQueueOptions {
  /** Limits of the blobs; they have the clock of the store unless they get one of their own. */
  readonly blobs?: MemoryBlobsOptions
}

const KNOWN = { ...MEMORY_STORE, ...MEMORY_QUEUE, blobs: 0 } satisfies Record<keyof MemoryOptions, 0>

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
  const { blobs = {}, maxQueued, maxQueuedBytes, ...store } = options
  checkNames('memory: blobs', blobs, MEMORY_BLOBS)
  const clock = options.now === undefined ? {} : { now: options.now }
  return {
    store: new MemoryStore(store),
    queue: new MemoryQueue({ ...maxQueued !== undefined && { maxQueued }, ...maxQueuedBytes !== undefined && { maxQueuedBytes } }),
    blobs: new MemoryBlobs({ ...clock, ...blobs }),
    index: new MemoryTaskIndex(clock),
  }
}
