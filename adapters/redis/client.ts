import { createHash } from 'node:crypto'
import { text, value } from '../../src/runtime/options.js'
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
  /** `PING`. */
  ping(): Promise<unknown>
  /** Closes the connection at once; with `true` the client connects again. */
  disconnect(reconnect?: boolean): void
  /** Options of the client. */
  readonly options?: {
    readonly keyPrefix?: string | undefined
    readonly scaleReads?: unknown
    readonly retryStrategy?: unknown
  }
  /** State of the connection: `ready`, `connecting`, … */
  readonly status?: string
  /** The socket. */
  readonly stream?: { readonly bytesRead?: number } | null
  /** Listens to `message`, `end` and `error`. */
  on(event: string, listener: (...args: string[]) => void): unknown
}

function isClient(client: unknown): boolean {
  const { evalsha, duplicate } = (client ?? {}) as Partial<RedisClient>
  return typeof evalsha === 'function' && typeof duplicate === 'function'
}

export const REDIS = {
  client: value(
    'an ioredis client: new Redis(url), or new Redis.Cluster([…])', isClient, { required: true },
  ),
  namespace: text({
    pattern: /^[A-Za-z0-9._-]{1,64}$/, expects: '1 to 64 of A-Z a-z 0-9 . _ -', default: 'longhaul',
  }),
  ...SHARES,
}

/** Returns whether reads of a Cluster may go to replicas, which lag behind. Scripts go to a master. */
export function readsReplicas({ options: { scaleReads = 'master' } = {} }: RedisClient): boolean {
  return scaleReads !== 'master'
}

/** A number in a reply: a string with `stringNumbers` of ioredis. */
export type Numeric = number | string

export interface Script {
  readonly source: string
  readonly sha: string
}

export function script(source: string): Script {
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
