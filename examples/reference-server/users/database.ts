/** A row as the database gives it: an id may be a number, a bigint or, in text, a number too large for some. */
export type Row = Readonly<Record<string, unknown>>

/** Sends statements, in the order in which they are asked for. */
export interface Sql {
  /** Values stand for $1, $2, … */
  query(text: string, values?: readonly unknown[]): Promise<Row[]>
}

/** A PostgreSQL, wherever it is. */
export interface Database extends Sql {
  /** Whether other processes see it too. */
  readonly shared: boolean
  /** Runs `work` on one connection, between BEGIN and COMMIT; ROLLBACK when it rejects. */
  transaction<Result>(work: (sql: Sql) => Promise<Result>): Promise<Result>
  close(): Promise<void>
}

/** SQLSTATE of a failure that PostgreSQL told, such as `23505`. */
export function sqlState(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null)?.code
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) ? code : undefined
}

export const UNIQUE_VIOLATION = '23505'
