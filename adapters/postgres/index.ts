export {
  postgres, type PgliteEngine, type PostgresEngine, type PostgresEngineOptions,
} from './engine.js'
export { PostgresQueue, type PostgresQueueOptions } from './queue.js'
export { PostgresBlobs } from './blobs/blobs.js'
export { migrate, type MigrateOptions } from './migrate.js'
export { PostgresStore } from './store.js'
export { PostgresTaskIndex } from './tasks/task-index.js'
export type { PostgresOptions } from './database.js'
export type {
  PgliteClient, PostgresClient, PostgresPool, PostgresPoolClient,
} from './client.js'
