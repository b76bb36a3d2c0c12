/**
 * The part of a `pg.Pool` that longhaul uses, described by its shape, so that any version of `pg`
 * from 8 fits. The caller creates it, configures it and closes it.
 */
export interface PostgresPool {
  /** Takes a client from the pool, or connects a new one. */
  connect(): Promise<PostgresPoolClient>
  /** Listens to `error`: the connection of an idle client was lost. */
  on(event: 'error', listener: (error: Error) => void): unknown
  /** Listens to `acquire`: a client is about to be given to a caller of `connect`. */
  on(event: 'acquire', listener: (client: PostgresPoolClient) => void): unknown
  /** Options of the pool: the change notices need a connection of their own. */
  readonly options?: object
}

/** The part of a client of a `pg.Pool` that longhaul uses. */
export interface PostgresPoolClient extends PostgresClient {
  /** Runs a statement. `values` stand for `$1`, `$2`, … */
  query(text: string, values?: unknown[]): Promise<{ readonly rows: unknown[] }>
  /** Runs a prepared statement, and prepares it if this client has not done so yet. */
  query(statement: {
    readonly name: string, readonly text: string, readonly values: unknown[],
  }): Promise<{ readonly rows: unknown[] }>
  /** Returns the client to the pool. With `true`, closes its connection. */
  release(destroy?: boolean): void
  /** Process id of its backend, or an id of the pooler. */
  readonly processID?: number | null
  /** Status of its transaction: `I` none, `T` open, `E` failed. Absent in older versions. */
  getTransactionStatus?(): string | null
  /** Listens to `error`, `end` and `notification`. */
  on(event: string, listener: (argument: never) => void): unknown
}

/** A client that runs one statement at a time: of a pool, or one inside a transaction. */
export interface PostgresClient {
  /** Runs a statement. `values` stand for `$1`, `$2`, … */
  query(text: string, values?: unknown[]): Promise<{ readonly rows: unknown[] }>
}

/** The part of a `PGlite` that longhaul uses: PostgreSQL inside this process. */
export interface PgliteClient {
  /** Runs a statement. `values` stand for `$1`, `$2`, … */
  query(text: string, values?: unknown[]): Promise<{ readonly rows: unknown[] }>
  /** Runs `work` inside a transaction. */
  transaction<T>(work: (transaction: PostgresClient) => Promise<T>): Promise<T>
  /** Calls `listener` for each notice on a channel. */
  listen(channel: string, listener: (payload: string) => void): Promise<() => Promise<void>>
}
