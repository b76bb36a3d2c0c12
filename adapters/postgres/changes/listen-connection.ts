import timers from 'node:timers'
import type { PostgresPool } from '../client.js'
import type { Subscriber, Subscription } from '../connections.js'

// Captured at once: the server keeps real time, also under a test's fake timers.
const { setTimeout, clearTimeout } = timers

/** Maximum time until the connection listens, in milliseconds. */
const OPEN_MS = 3000

/** The connections that are open, by pool. */
const connections = new WeakMap<PostgresPool, ListenConnection>()

/**
 * Subscribes to a channel. All subscriptions of a pool share one connection, which is opened with
 * the first one and closed with the last one.
 */
export function subscribe(
  pool: PostgresPool, channel: string, subscriber: Subscriber,
): Promise<Subscription> {
  let connection = connections.get(pool)
  if (connection === undefined || connection.isOver) {
    connection = new ListenConnection(pool)
    connections.set(pool, connection)
  }
  return connection.subscribe(channel, subscriber)
}

/** A connection that receives notices. */
class ListenConnection {
  /** `true` if the connection was closed or lost. */
  isOver = false
  private opened: Opened | undefined
  /** The last statement. A client of `pg` takes one at a time. */
  private last: Promise<unknown>
  /** Every subscription, those that do not listen yet included. */
  private readonly listeners = new Set<Listener>()

  constructor(pool: PostgresPool) {
    this.last = this.open(pool)
    // Each subscriber waits for it, and rejects.
    this.last.catch(() => undefined)
  }

  async subscribe(channel: string, subscriber: Subscriber): Promise<Subscription> {
    const listener: Listener = { channel, subscriber, isListening: false }
    this.listeners.add(listener)
    try {
      await inTime(this.query(`LISTEN "${channel}"`))
      if (this.isOver) throw new Error('The connection for notices was lost')
    } catch (error) {
      this.listeners.delete(listener)
      this.end()
      throw error
    }
    listener.isListening = true
    return {
      close: () => { this.remove(listener) },
      discard: () => {
        this.listeners.delete(listener)
        this.end()
      },
    }
  }

  private async open(pool: PostgresPool): Promise<void> {
    const opened = await connect(pool)
    this.opened = opened
    if (this.isOver) opened.close()
    const { client, ready } = opened
    client.on('error', () => { this.end() })
    client.on('end', () => { this.end() })
    client.on('notification', ({ channel, payload = '' }: Notice) => {
      for (const listener of [...this.listeners]) {
        if (listener.channel === channel) listener.subscriber.onNotice(payload)
      }
    })
    await ready
  }

  /** Runs a statement after the one before. If one fails, the connection is closed. */
  private query(text: string): Promise<unknown> {
    this.last = this.last.then(() => this.opened?.client.query(text))
    return this.last
  }

  private remove(listener: Listener): void {
    if (!this.listeners.delete(listener)) return
    if (this.listeners.size === 0) return this.end()
    const { channel } = listener
    if ([...this.listeners].some((other) => other.channel === channel)) return
    this.query(`UNLISTEN "${channel}"`).catch(() => { this.end() })
  }

  /** Closes the connection. Reports the loss to those that listen. */
  private end(): void {
    if (this.isOver) return
    this.isOver = true
    this.opened?.close()
    const listening = [...this.listeners].filter(({ isListening }) => isListening)
    this.listeners.clear()
    for (const { subscriber } of listening) subscriber.onLost()
  }
}

/** A subscription. */
interface Listener {
  readonly channel: string
  readonly subscriber: Subscriber
  isListening: boolean
}

interface Notice {
  readonly channel: string
  readonly payload?: string
}

/** The members of a `pg.Client` that are used here. */
interface Client {
  connect(): Promise<unknown>
  query(text: string): Promise<unknown>
  end(): Promise<unknown>
  on(event: string, listener: (argument: never) => void): unknown
  readonly connection?: { readonly stream?: { destroy(): unknown } }
}

/** The class of the clients of a `pg.Pool`, which its types do not declare. */
interface WithClient {
  readonly Client?: new (options: object) => Client
}

/** A client, and the function that closes its connection. */
interface Opened {
  readonly client: Pick<Client, 'query' | 'on'>
  /** Resolves when the connection can be used. */
  readonly ready: Promise<unknown>
  readonly close: () => void
}

/**
 * Opens a connection with the options of the pool. A pool that cannot make a client gives one of
 * its own.
 */
async function connect(pool: PostgresPool): Promise<Opened> {
  const { Client } = pool as WithClient
  if (Client === undefined || pool.options === undefined) {
    const client = await pool.connect()
    return { client, ready: Promise.resolve(), close: () => { client.release(true) } }
  }
  const client = new Client(pool.options)
  const close = (): void => {
    // Without waiting for the server: it may be out of reach.
    client.connection?.stream?.destroy()
    client.end().catch(() => undefined)
  }
  return { client, ready: client.connect(), close }
}

function inTime(work: Promise<unknown>): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      reject(new Error(`PostgreSQL has not answered within ${String(OPEN_MS)} ms`))
    }, OPEN_MS)
    timer.unref()
    work.then(resolve, reject).finally(() => { clearTimeout(timer) })
  })
}
