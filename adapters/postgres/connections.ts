/**
 * Runs one statement and returns its rows; `values` stand for `$1`, `$2`, … The statements of this
 * folder are functions of a `Query`, so that they run on the pool, or on the client of a
 * transaction.
 */
export type Query = <Row>(text: string, values?: readonly unknown[]) => Promise<readonly Row[]>

/** A statement that is running. */
export interface Running<Row> {
  readonly rows: Promise<readonly Row[]>
  /** Gives up. A connection that still runs the statement is closed, and is not used again. */
  cancel(): void
}

/** A subscription to change notices. */
export interface Subscription {
  /** Ends the subscription. */
  close(): void
}

/** Callbacks of a subscription. */
export interface Subscriber {
  /** Called for each notice. */
  onNotice(payload: string): void
  /** Called once, when the connection was lost. */
  onLost(): void
}

/** Access to a database: a server through a pool, or PGlite. */
export interface Connections {
  /** True if other processes see the same data. */
  readonly shared: boolean
  /** Starts one statement. It commits by itself. */
  start<Row>(text: string, values: readonly unknown[]): Running<Row>
  /** Runs `work` in a transaction, at most for `timeoutMs` milliseconds. */
  transaction<T>(work: (query: Query) => Promise<T>, timeoutMs: number): Promise<T>
  /** Subscribes to a channel on a connection of its own. */
  listen(channel: string, subscriber: Subscriber): Promise<Subscription>
}
