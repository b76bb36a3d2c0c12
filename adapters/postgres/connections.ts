/**
 * The part of a `pg.Pool` that longhaul uses, so that any version of `pg` from 8 fits. The caller
 * creates, configures and closes the pool.
 */
export interface PostgresPool {
  /** Takes a client from the pool, or connects a new one. */
  connect(): Promise<PostgresPoolClient>
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: 'acquire', listener: (client: PostgresPoolClient) => void): unknown
  /**
   * Options of the pool, for a second pool of the same class, because the change notices need their
   * own connection. Without options they use one of this pool.
   */
  readonly options?: object
}

/** The part of a client of a `pg.Pool` that longhaul uses. */
export interface PostgresPoolClient extends PostgresClient {
  query(text: string, values?: unknown[]): Promise<{ readonly rows: unknown[] }>
  /** Runs a prepared statement. Prepares it at the first call of this client. */
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

/** A client that runs one statement at a time. */
export interface PostgresClient {
  /** Runs a statement. `values` stand for `$1`, `$2`, … */
  query(text: string, values?: unknown[]): Promise<{ readonly rows: unknown[] }>
}

/** The part of a `PGlite` that longhaul uses: PostgreSQL inside this process. */
export interface PgliteClient extends PostgresClient {
  /** Runs `work` inside a transaction. */
  transaction<T>(work: (transaction: PostgresClient) => Promise<T>): Promise<T>
  /** Calls `listener` for each notice on a channel. */
  listen(channel: string, listener: (payload: string) => void): Promise<() => Promise<void>>
}

/** Runs one statement, on the pool or in a transaction, and returns its rows. */
export type Query = <Row>(text: string, values?: readonly unknown[]) => Promise<readonly Row[]>

export interface Running<T> {
  readonly result: Promise<T>
  /** Gives up, and closes the connection that is in use. */
  readonly cancel: () => void
}

/** Access to a database: a server through a pool, or PGlite. */
export interface Connections {
  readonly shared: boolean
  /** Starts one statement, which commits by itself. */
  start<Row>(text: string, values: readonly unknown[]): Running<readonly Row[]>
  /** Runs `work` in a transaction, at most for `timeoutMs` milliseconds. */
  transaction<T>(work: (query: Query) => Promise<T>, timeoutMs: number): Promise<T>
  /** Listens to a channel on its own connection. Resolves to a function that closes it. */
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
