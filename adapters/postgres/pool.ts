import { createHash } from 'node:crypto'
import timers from 'node:timers'
import type { PostgresPool, PostgresPoolClient } from './client.js'
import type { Connections, Query, Running, Subscriber, Subscription } from './connections.js'
import { isBroken } from './faults.js'
import { openSubscription } from './subscription.js'

// Captured at once: the server keeps real time, also under a test's fake timers.
const { setTimeout, clearTimeout } = timers

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

  constructor(private readonly pool: PostgresPool, private readonly preparesStatements = false) {
    if (guarded.has(pool)) return
    guarded.add(pool)
    // Without a listener, the loss of an idle connection would end the process. The pool has
    // removed the client already.
    pool.on('error', ignore)
  }

  start<Row>(text: string, values: readonly unknown[]): Running<Row> {
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
        const { rows } = await this.run(client, text, values as unknown[])
        this.release(state, false)
        return rows as Row[]
      } catch (error) {
        this.release(state, isBroken(error))
        throw error
      }
    }
    const cancel = (): void => {
      state.cancelled = true
      if (!state.client) return
      if (state.replies === this.replies) this.generation++
      state.client.release(true)
    }
    return { rows: run(), cancel }
  }

  async transaction<T>(work: (query: Query) => Promise<T>, timeoutMs: number): Promise<T> {
    let client: PostgresPoolClient | undefined
    let isOver = false
    const release = (destroy: boolean): void => {
      if (!isOver) client?.release(destroy)
      isOver = true
    }
    const run = async (): Promise<T> => {
      const taken = await this.checkOut()
      if (isOver) taken.release()
      client = taken
      const query: Query = async <Row>(text: string, values: readonly unknown[] = []) => {
        if (isOver) throw new Error('The transaction was cancelled')
        return (await taken.query(text, values as unknown[])).rows as Row[]
      }
      await query('BEGIN')
      const result = await work(query)
      await query('COMMIT')
      return result
    }
    let timer: ReturnType<typeof setTimeout> | undefined
    const late = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(() => {
        reject(new Error(`The transaction was not done within ${String(timeoutMs)} ms`))
      }, timeoutMs)
      timer.unref()
    })
    try {
      const result = await Promise.race([run(), late])
      release(false)
      return result
    } catch (error) {
      // Closing the connection rolls the transaction back.
      release(true)
      throw error
    } finally {
      clearTimeout(timer)
    }
  }

  listen(channel: string, subscriber: Subscriber): Promise<Subscription> {
    return openSubscription(this.pool, channel, subscriber)
  }

  /**
   * Takes a client from the pool. After a statement had no answer, a connection that has not
   * answered since then may be half-open. It is closed, so that the pool connects again.
   */
  private async checkOut(): Promise<PostgresPoolClient> {
    for (;;) {
      const client = await this.pool.connect()
      const last = this.lastAnswer.get(client)
      // Without a listener, the loss of a connection in use would end the process. The statement
      // fails as well.
      if (!guarded.has(client)) client.on('error', ignore)
      guarded.add(client)
      if (last === undefined || last === this.generation) {
        this.lastAnswer.set(client, this.generation)
        return client
      }
      client.release(true)
    }
  }

  private run(
    client: PostgresPoolClient, text: string, values: unknown[],
  ): Promise<{ readonly rows: unknown[] }> {
    if (!this.preparesStatements) return client.query(text, values)
    return client.query({ name: statementName(text), text, values })
  }

  private release({ cancelled, client }: StatementState, destroy: boolean): void {
    if (cancelled || !client) return
    this.replies++
    this.lastAnswer.set(client, this.generation)
    client.release(destroy)
  }
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
