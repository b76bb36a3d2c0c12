import { RedisStore, type RedisStoreOptions } from './store.js'
import { RedisTaskIndex } from './task-index.js'

/** What `redis()` makes. */
export interface RedisEngine {
  readonly store: RedisStore
  readonly index: RedisTaskIndex
}

/**
 * A store and an index of unfinished tasks on one Redis. The queue is `BullMQQueue` of `longhaul/bullmq`, with the same `namespace`.
 *
 * @example
 * const tasks = createTasks({ ...redis({ client, namespace: 'shop' }), queue: new BullMQQueue({ connection, namespace: 'shop' }), definitions })
 *
 * @throws {TypeError} an option makes no sense
 */
export function redis(options: RedisStoreOptions): RedisEngine {
  return { store: new RedisStore(options), index: new RedisTaskIndex(options) }
}
