import { createHash } from 'node:crypto'
import { settles, within } from '../../src/runtime/timers.js'
import { isBroken, sqlState } from './sql.js'

/**
 * The part of a `pg.Pool` that longhaul uses, so that any version of `pg` from 8 fits. The caller
 * creates, configures and closes the pool.
 */
export interface PostgresPool {
  /** Takes a client from the pool, or connects a new one. */
  connect(): Promise<PostgresPoolClient>
  /** Listens to errors of idle clients. */
  on(event: 'error', listener: (error: Error) => void): unknown
  /** Listens to clients that leave the pool. */
  on(event: 'acquire', listener: (client: PostgresPoolClient) => void): unknown
  /**
   * Options of the pool, for a second pool of the same class, because the change notices need their
   * own connection. Without options, the notices use a connection of this pool.
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

/** Runs one statement, on the pool or in a transaction, and returns its rows. */
export type Query = <Row>(text: string, values?: readonly unknown[]) => Promise<readonly Row[]>

export interface Running<T> {
  readonly result: Promise<T>
  /** Gives up, and closes the connection that is in use. */
  readonly cancel: () => void
}

/** Maximum time of the statement that stops late ones, in milliseconds. */
const STOP_MS = 1500
/** Time for the server to respond before the connection for notices is closed, in milliseconds. */
const CLOSE_MS = 500
/** Maximum time to connect for notices, and to listen, in milliseconds. */
const LISTEN_MS = 3000

/**
 * Stops a late statement. Compares its text, because a pooler gives its clients other process ids.
 * The server cuts long texts.
 */
const STOP = `SELECT pg_cancel_backend(pid) FROM pg_stat_activity
WHERE pid = $1::integer AND state = 'active' AND usename = current_user
  AND starts_with($2::text, query)`

/** Pools and clients whose `error` event has a listener. */
const guarded = new WeakSet<PostgresPool | PostgresPoolClient>()

/**
 * SQLSTATEs of a prepared statement that cannot run: its tables have changed (`cached plan must not
 * change result type`), or a pooler does not have it or has another one. The statement has changed
 * nothing.
 */
const STALE = new Set(['0A000', '26000', '42P05'])

class Use {
  client: PostgresPoolClient | undefined
  isCancelled = false
  /** True if a prepared statement of its connection no longer works. */
  isStale = false
  /** Number of replies before it began. */
  replies = 0
  /** The newest statement. */
  text = ''
}

/** Access to a server through a pool. */
export class Connections {
  /** Number of replies so far. */
  private replies = 0
  /**
   * Number that increases when a statement was cancelled and no other statement had a reply
   * meanwhile.
   */
  private generation = 0
  /** Generation in which each connection last had a reply. */
  private readonly lastReply = new WeakMap<PostgresPoolClient, number>()

  /** @throws {TypeError} `pool` is no `pg.Pool`. */
  constructor(private readonly pool: PostgresPool, private readonly preparesStatements = false) {
    if (typeof (pool as PostgresPool | undefined)?.connect !== 'function') {
      throw new TypeError('postgres: pool must be a pg.Pool, such as new pg.Pool({ connectionString })')
    }
    guard(pool)
  }

  /** Starts one statement, which commits by itself. */
  start<Row>(text: string, values: readonly unknown[]): Running<readonly Row[]> {
    const use = new Use()
    return {
      result: this.run(use, (client) => this.query<Row>(client, use, text, values), isBroken),
      cancel: () => { this.cancel(use) },
    }
  }

  /** Runs `work` in a transaction, at most for `timeoutMs` milliseconds. */
  transaction<T>(work: (query: Query) => Promise<T>, timeoutMs: number): Promise<T> {
    const use = new Use()
    const done = this.run(use, async (client) => {
      const query: Query = async <Row>(text: string, values: readonly unknown[] = []) => {
        use.text = text
        return (await client.query(text, values as unknown[])).rows as Row[]
      }
      await query('BEGIN ISOLATION LEVEL READ COMMITTED')
      const result = await work(query)
      await query('COMMIT')
      return result
      // After an error, the closed connection rolls the transaction back.
    }, () => true)
    return within(done, timeoutMs, () => {
      this.cancel(use)
      return new Error(`The transaction was not done within ${String(timeoutMs)} ms`)
    })
  }

  /** Listens to a channel on its own connection. Resolves to a function that closes it. */
  async listen(
    channel: string, onNotice: (payload: string) => void, onLost: () => void,
  ): Promise<() => void> {
    const client = await poolOfNotices(this.pool).connect()
    let isOpen = true
    for (const event of ['error', 'end']) client.on(event, () => { if (isOpen) onLost() })
    client.on('notification', ({ payload = '' }: { readonly payload?: string }) => {
      if (isOpen) onNotice(payload)
    })
    try {
      await within(client.query(`LISTEN "${channel}"`), LISTEN_MS, () => (
        new Error(`PostgreSQL has not responded within ${String(LISTEN_MS)} ms`)
      ))
    } catch (error) {
      isOpen = false
      client.release(true)
      throw error
    }
    return () => {
      isOpen = false
      // While a statement is active, `release` closes the socket without waiting for the server.
      void settles(client.query('SELECT 1'), CLOSE_MS).then(() => { client.release(true) })
    }
  }

  private async run<T>(
    use: Use, work: (client: PostgresPoolClient) => Promise<T>, breaks: (error: unknown) => boolean,
  ): Promise<T> {
    const client = await this.checkOut()
    if (use.isCancelled) {
      client.release()
      throw new Error('The statement was cancelled')
    }
    use.client = client
    use.replies = this.replies
    try {
      const result = await work(client)
      this.release(use, client, false)
      return result
    } catch (error) {
      this.release(use, client, breaks(error))
      throw error
    }
  }

  private release(use: Use, client: PostgresPoolClient, destroy: boolean): void {
    if (use.isCancelled) return
    this.replies++
    this.lastReply.set(client, this.generation)
    client.release(destroy || use.isStale)
  }

  /**
   * Closes the connection of a late statement. Stops the statement too, because a server that runs it
   * or waits for a lock does not notice the closed connection.
   */
  private cancel(use: Use): void {
    const { client, text, replies } = use
    use.isCancelled = true
    if (!client) return
    if (replies === this.replies) this.generation++
    client.release(true)
    const { processID } = client
    if (typeof processID !== 'number' || text === STOP) return
    const { result, cancel } = this.start(STOP, [processID, text])
    void settles(result, STOP_MS).then((isDone) => { if (!isDone) cancel() })
  }

  /**
   * Takes a client from the pool. Closes clients that the application has released inside a
   * transaction, and clients that may be half-open, because they have had no reply since another
   * statement got none.
   */
  private async checkOut(): Promise<PostgresPoolClient> {
    for (;;) {
      const client = await this.pool.connect()
      const last = this.lastReply.get(client) ?? this.generation
      // Its COMMIT may be under way, without having been awaited.
      if (isInTransaction(client)) await client.query('SELECT 1').catch(ignore)
      if (last === this.generation && !isInTransaction(client)) {
        this.lastReply.set(client, last)
        return client
      }
      client.release(true)
    }
  }

  /**
   * Runs a statement. Repeats it after 40001, with which it has changed nothing: the default isolation
   * level of the database is then above READ COMMITTED.
   */
  private async query<Row>(
    client: PostgresPoolClient, use: Use, text: string, values: readonly unknown[],
  ): Promise<readonly Row[]> {
    use.text = text
    const sent = values as unknown[]
    for (;;) {
      try {
        const { rows } = await (this.preparesStatements
          ? client.query({ name: statementName(text), text, values: sent }) : client.query(text, sent))
        return rows as Row[]
      } catch (error) {
        const state = sqlState(error) ?? ''
        if (this.preparesStatements && STALE.has(state)) {
          use.isStale = true
          return (await client.query(text, sent)).rows as Row[]
        }
        if (state !== '40001') throw error
      }
    }
  }
}

/**
 * Listens to the errors of a pool and of its clients, because an `error` event without a listener ends
 * the process. A listener that is attached after `connect()` would be late.
 */
function guard(pool: PostgresPool): void {
  if (guarded.has(pool)) return
  guarded.add(pool)
  pool.on('error', ignore)
  pool.on('acquire', (client) => {
    if (!guarded.has(client)) client.on('error', ignore)
    guarded.add(client)
  })
}

/** Returns a pool for one more connection, or the same pool if it has no class that makes pools. */
function poolOfNotices(pool: PostgresPool): PostgresPool {
  const options = pool.options as { readonly password?: unknown } | undefined
  if (options === undefined || pool.constructor === Object) return pool
  const Pool = pool.constructor as new (options: object) => PostgresPool
  // The password is not enumerable.
  const { password } = options
  const own = new Pool({ ...options, password, max: 1, connectionTimeoutMillis: LISTEN_MS })
  guard(own)
  return own
}

/** False for versions of `pg` that do not tell. */
function isInTransaction(client: PostgresPoolClient): boolean {
  return ['T', 'E'].includes(client.getTransactionStatus?.() ?? 'I')
}

const names = new Map<string, string>()

function statementName(text: string): string {
  const name = names.get(text)
    ?? `longhaul_${createHash('sha256').update(text).digest('base64url').slice(0, 16)}`
  names.set(text, name)
  return name
}

function ignore(): void {}
