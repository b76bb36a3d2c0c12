/**
 * An open transaction of the application, on one connection. A client of `pg` after `BEGIN` is one.
 * The guide has a few lines for each of Drizzle, Kysely, Knex and Prisma.
 */
export interface Transaction {
  /**
   * Runs one statement in the transaction. `$1`, `$2`, … in `text` stand for `values`. One
   * statement ends before the next one begins.
   */
  query(text: string, values: unknown[]): Promise<{ readonly rows: unknown[] }>
}

/**
 * Checks that a value can be a transaction. Only the database tells whether one is open.
 *
 * @throws {TypeError} The value has no function `query`.
 */
export function checkTransaction(where: string, transaction: unknown): void {
  const { query } = Object(transaction) as { readonly query?: unknown }
  if (typeof query === 'function') return
  throw new TypeError(
    `${where}: transaction must have a function query(text, values) that resolves to { rows }, `
      + 'such as a client of pg; docs/guide/transactions.md has those of Drizzle, Kysely, Knex and Prisma',
  )
}
