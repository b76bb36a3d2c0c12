export { postgres, type Postgres, type PostgresOptions } from './engine.js'
export { PostgresBlobs } from './blobs/blobs.js'
export { migrate, type MigrateOptions } from './migrate.js'
export { PostgresStore } from './store.js'
export { PostgresTaskEngine } from './task-engine/engine.js'
export type { DatabaseOptions } from './database.js'
export type {
  PgliteClient, PostgresClient, PostgresPool, PostgresPoolClient,
} from './client.js'
