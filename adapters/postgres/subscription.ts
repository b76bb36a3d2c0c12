import type { PostgresPool } from './client.js'
import type { Subscriber, Subscription } from './connections.js'

/** The members of a `pg.Client` that are used here. */
interface Connection {
  connect(): Promise<unknown>
  query(text: string): Promise<unknown>
  end(): Promise<unknown>
  on(event: string, listener: (argument: never) => void): unknown
  readonly connection?: { readonly stream?: { destroy(): unknown, unref?(): unknown } }
}

/** The class of the clients of a `pg.Pool`, which its types do not declare. */
interface WithClient {
  readonly Client?: new (options: object) => Connection
}

/**
 * Opens a connection of its own, with the options of the pool, and listens to a channel. A pool
 * that cannot make a client gives one of its own.
 */
export async function openSubscription(
  pool: PostgresPool, channel: string, subscriber: Subscriber,
): Promise<Subscription> {
  let isOver = false
  const opened = await connect(pool)
  const { connection } = opened
  const end = (): void => {
    if (isOver) return
    isOver = true
    opened.close()
  }
  const lost = (): void => {
    if (isOver) return
    end()
    subscriber.onLost()
  }
  connection.on('error', lost)
  connection.on('end', lost)
  connection.on('notification', ({ payload }: { readonly payload?: string }) => {
    if (!isOver) subscriber.onNotice(payload ?? '')
  })
  try {
    await connection.query(`LISTEN "${channel}"`)
  } catch (error) {
    end()
    throw error
  }
  return { close: end }
}

interface Opened {
  readonly connection: Pick<Connection, 'query' | 'on'>
  close(): void
}

async function connect(pool: PostgresPool): Promise<Opened> {
  const { Client } = pool as WithClient
  if (Client === undefined || pool.options === undefined) {
    const client = await pool.connect()
    return { connection: client, close: () => { client.release(true) } }
  }
  const client = new Client(pool.options)
  client.on('error', () => undefined)
  const close = (): void => {
    client.connection?.stream?.destroy()
    client.end().catch(() => undefined)
  }
  try {
    await client.connect()
  } catch (error) {
    close()
    throw error
  }
  return { connection: client, close }
}
