import type { RedisOptions } from './client.js'
import { RedisTaskEngine } from './engine.js'
import { RedisStore } from './store.js'

export type { RedisClient, RedisOptions } from './client.js'
export type { RedisTaskEngine } from './engine.js'
export type { RedisStore } from './store.js'

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
  return { engine: new RedisTaskEngine(options), store: new RedisStore(options) }
}
