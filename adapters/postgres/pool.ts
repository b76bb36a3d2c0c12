import { createHash } from 'node:crypto'
import { within } from '../../src/runtime/timers.js'
import {
  PgliteConnections, type Connections, type PgliteClient, type PostgresPool, type PostgresPoolClient,
  type Query, type Running, type Subscriber, type Subscription,
} from './connections.js'
import { isBroken, sqlState } from './sql.js'
import { openSubscription } from './subscription.js'

/** Maximum time of the statement that stops late ones, in milliseconds. */
const STOP_MS = 1500

/** Maximum number of statements that wait to be stopped. */
const MAX_LATE = 1000

/**
 * Stops backends that still run the statement that was late. The text is compared, because a pooler
 * gives its clients process ids of its own. The server cuts long strings.
 */
const STOP = `SELECT pg_cancel_backend(activity.pid)
FROM unnest($1::integer[], $2::text[]) AS late (pid, text)
JOIN pg_stat_activity AS activity ON activity.pid = late.pid
WHERE activity.state = 'active' AND activity.usename = current_user
  AND starts_with(late.text, activity.query)`

/** Pools and clients whose `error` event has a listener already. Engines may share a pool. */
const guarded = new WeakSet<PostgresPool | PostgresPoolClient>()

interface StatementState {
  cancelled: boolean
  /** Number of replies before it began. */
  replies: number
  client?: PostgresPoolClient
}

/**
 * Returns the access to a database, told apart by the methods of `pool`.
 *
 * @throws {TypeError} It is neither a `pg.Pool` nor a `PGlite`.
 */
export function connectionsOf(
  pool: PostgresPool | PgliteClient, preparesStatements = false,
): Connections {
  if (typeof (pool as PostgresPool | undefined)?.connect === 'function') {
    return new PoolConnections(pool as PostgresPool, preparesStatements)
  }
  if (typeof (pool as PgliteClient | undefined)?.listen === 'function') {
    return new PgliteConnections(pool as PgliteClient)
  }
  throw new TypeError(
    'postgres: pool must be a pg.Pool, such as new pg.Pool({ connectionString }), or a PGlite',
  )
}

export class PoolConnections implements Connections {
  readonly shared = true
  /** Number of replies so far. */
  private replies = 0
  /** Increased when a statement was cancelled and no other one had a reply meanwhile. */
  private generation = 0
  /** Generation in which each connection last had a reply. */
  private readonly lastReply = new WeakMap<PostgresPoolClient, number>()
  /** Statements whose connection was closed before their reply. */
  private readonly late: { readonly processId: number, readonly text: string }[] = []
  private isStopping = false

  constructor(private readonly pool: PostgresPool, private readonly preparesStatements = false) {
    if (guarded.has(pool)) return
    guarded.add(pool)
    // Without a listener, the loss of an idle connection would end the process. The pool has
    // removed the client already.
    pool.on('error', ignore)
    // Without a listener, the loss of a connection in use would end the process. Its statements
    // fail as well. The server may end a connection in the packet that makes it ready. A listener
    // that is attached when `connect()` has resolved would then be late.
    pool.on('acquire', (client) => {
      if (!guarded.has(client)) client.on('error', ignore)
      guarded.add(client)
    })
  }

  start<Row>(
    text: string, values: readonly unknown[], stopsLate = true,
  ): Running<Row> {
    const state: StatementState = { cancelled: false, replies: this.replies }
    const run = async (): Promise<readonly Row[]> => {
      const client = await this.checkOut()
      if (state.cancelled) {
        client.release()
        throw new Error('The statement was cancelled')
      }
      state.client = client
      state.replies = this.replies
      try {
        await assertIdle(client)
        const { rows } = await this.run(client, text, values as unknown[], state)
        this.release(state, false)
        return rows as Row[]
      } catch (error) {
        this.release(state, isBroken(error))
        throw error
      }
    }
    const cancel = (): void => {
      state.cancelled = true
      const { client } = state
      if (!client) return
      if (state.replies === this.replies) this.generation++
      client.release(true)
      if (stopsLate) this.stop(client, text)
    }
    return { rows: run(), cancel }
  }

  async transaction<T>(work: (query: Query) => Promise<T>, timeoutMs: number): Promise<T> {
    let client: PostgresPoolClient | undefined
    let isOver = false
    let running: string | undefined
    const release = (destroy: boolean): void => {
      if (!isOver) client?.release(destroy)
      isOver = true
      if (client && running !== undefined) this.stop(client, running)
    }
    const run = async (): Promise<T> => {
      const taken = await this.checkOut()
      if (isOver) taken.release()
      client = taken
      if (!isOver) await assertIdle(taken)
      const query: Query = async <Row>(text: string, values: readonly unknown[] = []) => {
        if (isOver) throw new Error('The transaction was cancelled')
        running = text
        try {
          return (await taken.query(text, values as unknown[])).rows as Row[]
        } finally {
          running = undefined
        }
      }
      await query('BEGIN ISOLATION LEVEL READ COMMITTED')
      const result = await work(query)
      await query('COMMIT')
      return result
    }
    try {
      const result = await within(run(), timeoutMs, () => (
        new Error(`The transaction was not done within ${String(timeoutMs)} ms`)
      ))
      release(false)
      return result
    } catch (error) {
      // Closing the connection rolls the transaction back.
      release(true)
      throw error
    }
  }

  listen(channel: string, subscriber: Subscriber): Promise<Subscription> {
    return openSubscription(this.pool, channel, subscriber)
  }

  /**
   * Takes a client from the pool. After a statement had no reply, a connection that has had none
   * since then may be half-open. It is closed, so that the pool connects again.
   */
  private async checkOut(): Promise<PostgresPoolClient> {
    for (;;) {
      const client = await this.pool.connect()
      const last = this.lastReply.get(client)
      if (last === undefined || last === this.generation) {
        this.lastReply.set(client, this.generation)
        return client
      }
      client.release(true)
    }
  }

  /**
   * Stops a late statement on the server soon. The server does not notice a closed connection while
   * a statement runs or waits for a lock. Such statements would pile up beyond the size of the pool,
   * until the server has no connections left.
   */
  private stop({ processID }: PostgresPoolClient, text: string): void {
    if (typeof processID !== 'number') return
    if (this.late.length < MAX_LATE) this.late.push({ processId: processID, text })
    if (!this.isStopping) void this.stopAll()
  }

  private async stopAll(): Promise<void> {
    this.isStopping = true
    while (this.late.length > 0) {
      const late = this.late.splice(0)
      const { rows, cancel } = this.start(STOP, [
        late.map(({ processId }) => processId), late.map(({ text }) => text),
      ], false)
      await within(rows, STOP_MS, () => {
        cancel()
        return new Error('The server has not stopped a statement in time')
      }).catch(ignore)
    }
    this.isStopping = false
  }

  /**
   * Runs a statement. It may fail with 40001 if the default isolation level of the database is above
   * READ COMMITTED. Then it has changed nothing and is repeated, until its time is over.
   */
  private async run(
    client: PostgresPoolClient, text: string, values: unknown[], state: StatementState,
  ): Promise<{ readonly rows: unknown[] }> {
    for (;;) {
      try {
        if (!this.preparesStatements) return await client.query(text, values)
        return await client.query({ name: statementName(text), text, values })
      } catch (error) {
        if (state.cancelled || sqlState(error) !== '40001') throw error
      }
    }
  }

  private release({ cancelled, client }: StatementState, destroy: boolean): void {
    if (cancelled || !client) return
    this.replies++
    this.lastReply.set(client, this.generation)
    client.release(destroy)
  }
}

/**
 * Rejects if the application has released a client inside a transaction. A statement would then be
 * lost with that transaction, or fail until the connection is closed.
 */
async function assertIdle(client: PostgresPoolClient): Promise<void> {
  if (!isInTransaction(client)) return
  // Its COMMIT may be under way, without having been awaited.
  await client.query('SELECT 1').catch(ignore)
  if (!isInTransaction(client)) return
  throw new Error('The application has released a client to the pool inside a transaction')
}

/** False for versions of `pg` that do not tell. */
function isInTransaction(client: PostgresPoolClient): boolean {
  return ['T', 'E'].includes(client.getTransactionStatus?.() ?? 'I')
}

/** Names by text. The number of different strings is small. */
const names = new Map<string, string>()

function statementName(text: string): string {
  let name = names.get(text)
  if (name === undefined) {
    name = `longhaul_${createHash('sha256').update(text).digest('base64url').slice(0, 16)}`
    names.set(text, name)
  }
  return name
}

function ignore(): void {}
