import { MemoryQueue, type MemoryQueueOptions } from './queue.js'
import { MemoryStore, type MemoryStoreOptions } from './store.js'

export { MemoryQueue, type MemoryQueueOptions } from './queue.js'
export { MemoryStore, type MemoryStoreOptions } from './store.js'

/**
 * A store and a queue in the memory of this process: everything that one process needs. Close both
 * when the server stops, the queue first, because what it drains still writes to the store.
 */
export function memory(options: MemoryStoreOptions & MemoryQueueOptions = {}): { store: MemoryStore, queue: MemoryQueue } {
  return { store: new MemoryStore(options), queue: new MemoryQueue(options) }
}
