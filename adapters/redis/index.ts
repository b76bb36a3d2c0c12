export { RedisStore, type RedisStoreOptions } from './store.js'
export type { RedisClient } from './client.js'
