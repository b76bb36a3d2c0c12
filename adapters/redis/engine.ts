import { checkNames } from '../../src/runtime/option-names.js'
import { REDIS_STORE, RedisStore, type RedisStoreOptions } from './store.js'
import { RedisTaskIndex } from './task-index.js'

/** The parts that `redis()` creates. */
export interface RedisEngine {
  readonly store: RedisStore
  readonly index: RedisTaskIndex
}

/**
 * A store and a task index on one Redis. The queue is `BullMQQueue` of
 * `longhaul/bullmq`, with the same `namespace`.
 *
 * @example
 * const queue = new BullMQQueue({ connection: client, namespace: 'shop' })
 * const tasks = createTasks({ ...redis({ client, namespace: 'shop' }), queue, definitions })
 *
 * @throws {TypeError} an option makes no sense
 */
export function redis(options: RedisStoreOptions): RedisEngine {
  checkNames('redis', options, REDIS_STORE)
  const { maxEntriesPerOwner: _entries, maxBytesPerOwner: _bytes, ...index } = options
  return { store: new RedisStore(options), index: new RedisTaskIndex(index) }
}
