import { createHash } from 'node:crypto'
import { duration, text, value, type OptionTable } from '../../src/runtime/options.js'
import { SHARES } from '../../src/stores/share-limits.js'

/**
 * The part of a Redis client that longhaul uses: ioredis 5 or 6, a single server, a Cluster or
 * Sentinel. The application creates, configures and closes the client.
 */
export interface RedisClient {
  /** `GET key`. */
  get(key: string): Promise<string | null>
  /** `HMGET key field …`. */
  hmget(key: string, ...fields: string[]): Promise<(string | null)[]>
  /** `EVAL script keys …`. */
  eval(script: string, keys: number, ...args: (string | number)[]): Promise<unknown>
  /** `EVALSHA sha keys …`. */
  evalsha(sha: string, keys: number, ...args: (string | number)[]): Promise<unknown>
  /** `SUBSCRIBE channel …`; resolves once the server has confirmed. */
  subscribe(...channels: string[]): Promise<unknown>
  /** `UNSUBSCRIBE channel …`. */
  unsubscribe(...channels: string[]): Promise<unknown>
  /**
   * Opens another connection, for notices and checks. In a Cluster, call it on one of its `nodes`.
   */
  duplicate(...options: never[]): RedisClient
  /** The connections of a Cluster: all, or those of a role. */
  nodes?(role?: 'master'): RedisClient[]
  /** `INFO section`. */
  info?(section: string): Promise<string>
  /** `PING`. */
  ping(): Promise<unknown>
  /** Closes the connection at once; with `true` the client connects again. */
  disconnect(reconnect?: boolean): void
  /** Options of the client. */
  readonly options?: { readonly scaleReads?: unknown, readonly retryStrategy?: unknown }
  /** State of the connection: `ready`, `connecting`, … */
  readonly status?: string
  /** The socket. */
  readonly stream?: { readonly bytesRead?: number } | null
  /** Listens to `message`, `end` and `error`. */
  on(event: string, listener: (...args: string[]) => void): unknown
}

/** Options of `redis`. */
export interface RedisOptions {
  /** Your ioredis client (5 or 6): single, Cluster or Sentinel. You close it yourself. */
  readonly client: RedisClient
  /**
   * Prefix of all keys and channels: 1 to 64 of `A-Z a-z 0-9 . _ -`. Default `longhaul`.
   *
   * Each application on one Redis needs its own prefix.
   *
   * In keys it is the hash tag, so that a Cluster keeps them on one node.
   */
  readonly namespace?: string
  /**
   * Maximum time of one call, in milliseconds. Default 1500.
   *
   * A slower call fails.
   */
  readonly timeoutMs?: number
  /**
   * Time without a renewal after which another process takes a run, in milliseconds: from 100 to
   * 86,400,000. Default 15,000.
   *
   * A process renews its runs at a third of it.
   */
  readonly leaseMs?: number
  /**
   * Maximum number of finished tasks of one owner, and of its stored responses and finished
   * uploads. Default 100,000.
   *
   * Beyond it, the owner's oldest are deleted.
   */
  readonly maxEntriesPerOwner?: number
  /** Maximum size of these tasks in bytes, and of these entries. Default 64 MiB. */
  readonly maxBytesPerOwner?: number
}

export const REDIS = {
  client: value('an ioredis client: new Redis(url), or new Redis.Cluster([…])', (client) => {
    const { evalsha, duplicate } = (client ?? {}) as Partial<RedisClient>
    return typeof evalsha === 'function' && typeof duplicate === 'function'
  }, { required: true }),
  namespace: text({
    pattern: /^[A-Za-z0-9._-]{1,64}$/, expects: '1 to 64 of A-Z a-z 0-9 . _ -', default: 'longhaul',
  }),
  timeoutMs: duration({ min: 10, max: 4000, default: 1500 }),
  leaseMs: duration({ min: 100, max: 86_400_000, default: 15_000 }),
  ...SHARES,
} satisfies OptionTable<RedisOptions>

/** Options of a connection that longhaul itself opens, and that does not connect again. */
export const OWN = {
  lazyConnect: false, enableReadyCheck: true, enableOfflineQueue: true, autoResubscribe: false,
  enableAutoPipelining: false, disconnectTimeout: 100, retryStrategy: null,
} as never

/** Returns whether reads of a Cluster may go to replicas, which lag behind. Scripts go to a master. */
export function readsReplicas({ options: { scaleReads = 'master' } = {} }: RedisClient): boolean {
  return scaleReads !== 'master'
}

/** A number in a reply: a string with `stringNumbers` of ioredis. */
export type Numeric = number | string

export type Script = ReturnType<typeof script>

export function script(source: string): { readonly source: string, readonly sha: string } {
  return { source, sha: createHash('sha1').update(source).digest('hex') }
}

/** Runs a script by its digest. If the server does not know it, sends the source. */
export function runScript(
  client: RedisClient, { source, sha }: Script, keys: number, ...args: (string | number)[]
): Promise<unknown> {
  return client.evalsha(sha, keys, ...args).catch((error: unknown) => {
    if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error
    return client.eval(source, keys, ...args)
  })
}
