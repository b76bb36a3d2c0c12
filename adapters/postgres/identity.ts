/**
 * Returns the SQL that identifies a database: the id of its tables, and the number of the database,
 * which differs for a copy on the same server.
 *
 * @param schema - quoted as an identifier
 */
export function identitySql(schema: string): string {
  return 'SELECT id || \'/\' || (SELECT oid FROM pg_database WHERE datname = current_database()) '
    + `AS identity FROM ${schema}.installation`
}
