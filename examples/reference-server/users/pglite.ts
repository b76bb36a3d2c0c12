import { PGlite, type Transaction } from '@electric-sql/pglite'
import type { Database, Row, Sql } from './database.js'

/** A PostgreSQL inside of this process, in memory. Takes some seconds to start. */
export async function openPglite(): Promise<Database> {
  const db = await PGlite.create()
  const sql = (on: PGlite | Transaction): Sql => ({
    query: async (text, values = []) => (await on.query<Row>(text, [...values])).rows,
  })
  return {
    ...sql(db), shared: false,
    transaction: (work) => db.transaction((transaction) => work(sql(transaction))),
    close: () => db.close(),
  }
}
