import type { PgliteClient, PostgresPool } from './client.js'
import type { Connections } from './connections.js'
import { PgliteConnections } from './pglite.js'
import { PoolConnections } from './pool.js'

/**
 * Returns the access to a database, told apart by the methods of `pool`.
 *
 * @throws {TypeError} It is neither a `pg.Pool` nor a `PGlite`.
 */
export function connectionsOf(
  pool: PostgresPool | PgliteClient, preparesStatements = false,
): Connections {
  if (typeof (pool as PostgresPool | undefined)?.connect === 'function') {
    return new PoolConnections(pool as PostgresPool, preparesStatements)
  }
  if (typeof (pool as PgliteClient | undefined)?.listen === 'function') {
    return new PgliteConnections(pool as PgliteClient)
  }
  throw new TypeError(
    'postgres: pool must be a pg.Pool, such as new pg.Pool({ connectionString }), or a PGlite',
  )
}
