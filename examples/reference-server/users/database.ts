/** A row of the database. An id may be a number, a bigint, or the text of a large number. */
export type Row = Readonly<Record<string, unknown>>

/** Sends statements in the order of the calls. */
export interface Sql {
  /** Values stand for $1, $2, … */
  query(text: string, values?: readonly unknown[]): Promise<Row[]>
}

/** A PostgreSQL. */
export interface Database extends Sql {
  /** Runs `work` on one connection, between BEGIN and COMMIT; ROLLBACK when it rejects. */
  transaction<Result>(work: (sql: Sql) => Promise<Result>): Promise<Result>
  close(): Promise<void>
}

/** Returns the SQLSTATE of an error of PostgreSQL, such as `23505`. */
export function sqlState(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : undefined
}

export const UNIQUE_VIOLATION = '23505'
