import { warn } from '../../src/runtime/warning.js'

/** Schemas with missing migrations that were reported, by pool. */
const reported = new WeakMap<object, Set<string>>()

/**
 * Reports that a schema lacks migrations as a warning of the process. Reports each schema of a pool
 * once, because engine, store and blobs of one `postgres()` lack the same migrations.
 */
export function warnOfMissing(pool: object, schema: string, error: Error): void {
  const schemas = reported.get(pool) ?? new Set()
  reported.set(pool, schemas)
  if (!schemas.has(schema)) warn(error)
  schemas.add(schema)
}
