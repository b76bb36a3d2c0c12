import type { PGlite } from '@electric-sql/pglite'
import { CHANNEL, type Database } from './database.js'

/** The PostgreSQL inside of this process: nobody else sees it. */
export function overPglite(pglite: PGlite): Database {
  return {
    shared: false,
    query: async <T>(text: string, values: readonly unknown[]) => (await pglite.query<T>(text, [...values])).rows,
    listen: (tell) => pglite.listen(CHANNEL, tell),
  }
}
