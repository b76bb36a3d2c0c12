import { createHash } from 'node:crypto'
import { within } from '../../src/runtime/timers.js'
import type { PostgresPool, PostgresPoolClient } from './client.js'
import type { Connections, Query, Running, Subscriber, Subscription } from './connections.js'
import { isBroken, sqlState } from './faults.js'
import { LateStatements } from './late-statements.js'
import { openSubscription } from './subscription.js'

/** Maximum time of the statement that stops late ones, in milliseconds. */
const STOP_MS = 1500

/** Pools and clients whose `error` event has a listener already. Engines may share a pool. */
const guarded = new WeakSet<PostgresPool | PostgresPoolClient>()

/** A statement that was started. */
interface StatementState {
  cancelled: boolean
  /** Number of replies before it began. */
  replies: number
  client?: PostgresPoolClient
}

/** A PostgreSQL server through the `pg.Pool` of the host. */
export class PoolConnections implements Connections {
  readonly shared = true
  /** Number of replies so far. */
  private replies = 0
  /** Increased when a statement was cancelled and no other one had a reply meanwhile. */
  private generation = 0
  /** Generation in which each connection last answered. */
  private readonly lastAnswer = new WeakMap<PostgresPoolClient, number>()
  private readonly lateStatements = new LateStatements((text, values) => this.stopLate(text, values))

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

  start<Row>(text: string, values: readonly unknown[]): Running<Row> {
    const { rows, close } = this.begin<Row>(text, values)
    const cancel = (): void => {
      const processId = close()
      if (processId !== undefined) this.lateStatements.stop({ processId, text })
    }
    return { rows, cancel }
  }

  async transaction<T>(work: (query: Query) => Promise<T>, timeoutMs: number): Promise<T> {
    let client: PostgresPoolClient | undefined
    let isOver = false
    /** The statement that has no reply yet. */
    let running: string | undefined
    const release = (destroy: boolean): void => {
      if (!isOver) client?.release(destroy)
      isOver = true
      const processId = client?.processID ?? undefined
      if (processId !== undefined && running !== undefined) {
        this.lateStatements.stop({ processId, text: running })
      }
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
   * Starts one statement. `close` closes its connection, and returns the process id of its backend
   * if it has begun.
   */
  private begin<Row>(text: string, values: readonly unknown[]): {
    readonly rows: Promise<readonly Row[]>, readonly close: () => number | undefined,
  } {
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
    const close = (): number | undefined => {
      state.cancelled = true
      const { client } = state
      if (!client) return undefined
      if (state.replies === this.replies) this.generation++
      client.release(true)
      return client.processID ?? undefined
    }
    return { rows: run(), close }
  }

  /**
   * Takes a client from the pool. After a statement had no answer, a connection that has not
   * answered since then may be half-open. It is closed, so that the pool connects again.
   */
  private async checkOut(): Promise<PostgresPoolClient> {
    for (;;) {
      const client = await this.pool.connect()
      const last = this.lastAnswer.get(client)
      if (last === undefined || last === this.generation) {
        this.lastAnswer.set(client, this.generation)
        return client
      }
      client.release(true)
    }
  }

  /** Runs the statement that stops late ones. If it is late itself, it is not stopped. */
  private stopLate<Row>(text: string, values: readonly unknown[] = []): Promise<readonly Row[]> {
    const { rows, close } = this.begin<Row>(text, values)
    return within(rows, STOP_MS, () => {
      close()
      return new Error('The server has not stopped a statement in time')
    })
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
    this.lastAnswer.set(client, this.generation)
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

/** Names by text. The number of different texts is small. */
const names = new Map<string, string>()

/** Returns the name of a prepared statement: the same for the same text in every process. */
function statementName(text: string): string {
  let name = names.get(text)
  if (name === undefined) {
    name = `longhaul_${createHash('sha256').update(text).digest('base64url').slice(0, 16)}`
    names.set(text, name)
  }
  return name
}

function ignore(): void {}
