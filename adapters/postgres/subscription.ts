import { within } from '../../src/runtime/timers.js'
import type { PostgresPool, Subscriber, Subscription } from './connections.js'

/** Maximum time until the connection listens, in milliseconds. */
const OPEN_MS = 3000

interface Connection {
  connect(): Promise<unknown>
  query(text: string): Promise<unknown>
  end(): Promise<unknown>
  on(event: string, listener: (argument: never) => void): unknown
  readonly connection?: { readonly stream?: { destroy(): unknown } }
}

/** The class of the clients of a `pg.Pool`, which its types do not declare. */
interface WithClient {
  readonly Client?: new (options: object) => Connection
}

interface Opened {
  readonly connection: Pick<Connection, 'query' | 'on'>
  /** Resolves when the connection can be used. */
  readonly ready: Promise<unknown>
  readonly close: () => void
}

/**
 * Opens its own connection, with the options of the pool, and listens to a channel. A pool
 * that cannot make a client gives one of its own.
 */
export async function openSubscription(
  pool: PostgresPool, channel: string, subscriber: Subscriber,
): Promise<Subscription> {
  const { connection, ready, close } = await connect(pool)
  let isOver = false
  let isOpen = false
  const end = (): void => {
    if (isOver) return
    isOver = true
    close()
  }
  const lost = (): void => {
    if (isOver) return
    end()
    if (isOpen) subscriber.onLost()
  }
  connection.on('error', lost)
  connection.on('end', lost)
  connection.on('notification', ({ payload }: { readonly payload?: string }) => {
    if (!isOver) subscriber.onNotice(payload ?? '')
  })
  const listening = ready.then(() => connection.query(`LISTEN "${channel}"`))
  try {
    await within(listening, OPEN_MS, () => (
      new Error(`PostgreSQL has not answered within ${String(OPEN_MS)} ms`)
    ))
  } catch (error) {
    end()
    throw error
  }
  isOpen = true
  return { close: end }
}

async function connect(pool: PostgresPool): Promise<Opened> {
  const { Client } = pool as WithClient
  if (Client === undefined || pool.options === undefined) {
    const client = await pool.connect()
    return { connection: client, ready: Promise.resolve(), close: () => { client.release(true) } }
  }
  const client = new Client(pool.options)
  const close = (): void => {
    // Without waiting for the server: it may be out of reach.
    client.connection?.stream?.destroy()
    client.end().catch(() => undefined)
  }
  return { connection: client, ready: client.connect(), close }
}
