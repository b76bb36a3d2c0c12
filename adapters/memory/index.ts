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

/**
 * A store, a queue and blobs in the memory of this process: everything that one process needs. Close all
 * when the server stops, the queue first, because what it drains still writes to the others.
 */
export function memory({ blobs, ...options }: MemoryOptions = {}): { store: MemoryStore, queue: MemoryQueue, blobs: MemoryBlobs } {
  const clock = options.now === undefined ? {} : { now: options.now }
  return { store: new MemoryStore(options), queue: new MemoryQueue(options), blobs: new MemoryBlobs({ ...clock, ...blobs }) }
}
