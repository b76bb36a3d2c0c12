import { readOptions } from '../../src/runtime/options.js'
import { REDIS_TASK_ENGINE, RedisTaskEngine, type RedisTaskEngineOptions } from './engine.js'
import { RedisStore } from './store.js'

export type { RedisClient } from './client.js'
export type { RedisTaskEngine } from './engine.js'
export type { RedisStore } from './store.js'

/** Options of `redis`. */
export type RedisOptions = RedisTaskEngineOptions

/** The parts that `redis()` creates. */
export interface RedisParts {
  readonly engine: RedisTaskEngine
  readonly store: RedisStore
}

/**
 * Creates a task engine and a store on one Redis. For blobs use `FolderBlobs` of `longhaul/files`.
 *
 * @example
 * const tasks = createTasks({ ...redis({ client, namespace: 'shop' }), definitions })
 *
 * @throws {TypeError} An option is unknown or out of range.
 */
export function redis(options: RedisOptions): RedisParts {
  const { client, namespace, timeoutMs, maxEntriesPerOwner, maxBytesPerOwner } =
    readOptions('redis', options, REDIS_TASK_ENGINE)
  const engine = new RedisTaskEngine(options)
  const store = new RedisStore({ client, namespace, timeoutMs, maxEntriesPerOwner, maxBytesPerOwner })
  return { engine, store }
}
