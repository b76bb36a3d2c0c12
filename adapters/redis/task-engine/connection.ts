import type { ConnectionOptions } from 'bullmq'
import type { RedisClient } from '../client.js'
import type { Connected } from '../silence.js'

/** Options of a client that decide whether BullMQ can use it. */
interface ClientOptions {
  readonly keyPrefix?: string | undefined
  readonly enableAutoPipelining?: boolean
  readonly maxRetriesPerRequest?: number | null
  /** Options of the connections of a Cluster. */
  readonly redisOptions?: ClientOptions
}

/** Options that BullMQ needs. */
const NEEDED = { keyPrefix: '', enableAutoPipelining: false, maxRetriesPerRequest: null }

/** The connection of BullMQ. */
export class BullConnection {
  /** BullMQ's prefix of keys. It contains a hash tag. */
  readonly prefix: string
  private own: RedisClient | undefined

  /** @param given - the option of the application */
  constructor(
    private readonly client: RedisClient, private readonly given: ConnectionOptions | undefined,
    namespace: string,
  ) {
    // BullMQ does not take a client with `keyPrefix`.
    const { keyPrefix = '' } = given ? {} : client.options ?? {}
    this.prefix = `${keyPrefix}{${namespace}}`
  }

  /** The connection for BullMQ: the given one, the client, or a copy of it that suits BullMQ. */
  get(): ConnectionOptions {
    if (this.given) return this.given
    const { client } = this
    const options: ClientOptions = client.options ?? {}
    if (suits(options) && suits({ maxRetriesPerRequest: null, ...options.redisOptions })) {
      return client
    }
    this.own ??= client.nodes
      ? client.duplicate(...[
        undefined, { ...NEEDED, redisOptions: { ...options.redisOptions, ...NEEDED } },
      ] as never[])
      : client.duplicate(NEEDED as never)
    // Without a listener the client writes each failed connect to the console.
    this.own.on('error', () => undefined)
    return this.own
  }

  close(): void {
    this.own?.disconnect()
  }
}

function suits(
  { keyPrefix = '', enableAutoPipelining = false, maxRetriesPerRequest }: ClientOptions,
): boolean {
  return keyPrefix === '' && !enableAutoPipelining && maxRetriesPerRequest === null
}

/** A queue or worker of BullMQ 5 or 6. */
interface Owner {
  /** BullMQ 5. */
  readonly client?: Promise<unknown>
  /** BullMQ 6. */
  getBackend?(): { readonly client: Promise<unknown> }
}

/**
 * Returns the client of a queue or worker of BullMQ. Only ioredis has a known way to replace a
 * connection.
 */
export async function clientOf(
  owner: object,
): Promise<Connected & { disconnect?(): void } | undefined> {
  const either: Owner = owner
  const client = await (either.getBackend?.() ?? either).client
  const isIoredis = typeof (client as { defineCommand?: unknown }).defineCommand === 'function'
  return isIoredis ? client as Connected : undefined
}
