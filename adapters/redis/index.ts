export { redis, type RedisEngine } from './engine.js'
export { RedisTaskIndex, type RedisTaskIndexOptions } from './task-index.js'
export { RedisStore, type RedisStoreOptions } from './store.js'
export type { RedisClient } from './client.js'
