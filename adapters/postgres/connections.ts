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
  /**
   * Options of the pool. The class of the pool gets them for a second pool, because the change
   * notices need their own connection. Without options they use one of the pool.
   */
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

/**
 * Runs one statement and returns its rows; `values` stand for `$1`, `$2`, … The statements of this
 * folder are functions of a `Query`, so that they run on the pool, or on the client of a
 * transaction.
 */
export type Query = <Row>(text: string, values?: readonly unknown[]) => Promise<readonly Row[]>

export interface Running<T> {
  readonly result: Promise<T>
  /** Gives up. A connection that is in use is closed, and is not used again. */
  readonly cancel: () => void
}

/** Access to a database: a server through a pool, or PGlite. */
export interface Connections {
  /** True if other processes see the same data. */
  readonly shared: boolean
  /** Starts one statement. It commits by itself. */
  start<Row>(text: string, values: readonly unknown[]): Running<readonly Row[]>
  /** Runs `work` in a transaction, at most for `timeoutMs` milliseconds. */
  transaction<T>(work: (query: Query) => Promise<T>, timeoutMs: number): Promise<T>
  /**
   * Listens to a channel on its own connection. Resolves to a function that closes it.
   *
   * @param onLost - called when the connection was lost
   */
  listen(
    channel: string, onNotice: (payload: string) => void, onLost: () => void,
  ): Promise<() => void>
}

/** PGlite: PostgreSQL inside this process, with one session. */
export class PgliteConnections implements Connections {
  readonly shared = false

  constructor(private readonly pglite: PgliteClient) {}

  start<Row>(text: string, values: readonly unknown[]): Running<readonly Row[]> {
    const result = queryOn(this.pglite)<Row>(text, values)
    // There is no connection to close.
    return { result, cancel: () => undefined }
  }

  transaction<T>(work: (query: Query) => Promise<T>): Promise<T> {
    return this.pglite.transaction((transaction) => work(queryOn(transaction)))
  }

  async listen(channel: string, onNotice: (payload: string) => void): Promise<() => void> {
    const unlisten = await this.pglite.listen(`"${channel}"`, onNotice)
    return () => { unlisten().catch(() => undefined) }
  }
}

function queryOn(client: PostgresClient): Query {
  return async <Row>(text: string, values: readonly unknown[] = []) => (
    (await client.query(text, values as unknown[])).rows as Row[]
  )
}
