import pg from 'pg'

/** The pool of each program: ten connections to the database of the benchmark. */
export function openPool(): pg.Pool {
  const pool = new pg.Pool({ connectionString: process.env['DATABASE_URL'] ?? '', max: 10 })
  pool.on('error', () => undefined)
  return pool
}
