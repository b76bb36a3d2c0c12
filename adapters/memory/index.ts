import { checkNames } from '../../src/http/option-names.js'
import { MemoryBlobs, type MemoryBlobsOptions } from './blobs.js'
import { MemoryQueue, type MemoryQueueOptions } from './queue.js'
import { MemoryStore, type MemoryStoreOptions } from './store.js'

export { MemoryBlobs, type MemoryBlobsOptions } from './blobs.js'
export { MemoryQueue, type MemoryQueueOptions } from './queue.js'
export { MemoryStore, type MemoryStoreOptions } from './store.js'

/** What `memory()` takes. */
export interface MemoryOptions extends MemoryStoreOptions, MemoryQueueOptions {
  /** Limits of the blobs; they have the clock of the store unless they get one of their own. */
  readonly blobs?: MemoryBlobsOptions
}

const BLOBS = { maxBytes: 0, now: 0 } satisfies Record<keyof MemoryBlobsOptions, 0>
const KNOWN = {
  maxEntries: 0, maxBytes: 0, maxCounters: 0, maxWatches: 0, now: 0, maxQueued: 0, maxQueuedBytes: 0, blobs: 0,
} satisfies Record<keyof MemoryOptions, 0>

/**
 * A store, a queue and blobs in the memory of this process: everything that one process needs. Close all
 * when the server stops, the queue first, because what it drains still writes to the others.
 */
export function memory(options: MemoryOptions = {}): { store: MemoryStore, queue: MemoryQueue, blobs: MemoryBlobs } {
  checkNames('memory', options, KNOWN)
  const { blobs = {} } = options
  checkNames('memory: blobs', blobs, BLOBS)
  const clock = options.now === undefined ? {} : { now: options.now }
  return { store: new MemoryStore(options), queue: new MemoryQueue(options), blobs: new MemoryBlobs({ ...clock, ...blobs }) }
}
