/**
 * The part of a Redis client that longhaul uses: ioredis 5 or 6, a single server, a Cluster or
 * Sentinel. Told by shape, so that any version of the caller's fits. The caller makes it,
 * configures it and closes it.
 */
export interface RedisClient {
  /** `GET key`. */
  get(key: string): Promise<string | null>
  /** `SET key value PX ttl NX`. */
  set(key: string, value: string, px: 'PX', ttlMs: number, nx: 'NX'): Promise<unknown>
  /** `EVAL script keys …`. */
  eval(script: string, keys: number, ...args: (string | number)[]): Promise<unknown>
  /** `EVALSHA sha keys …`. */
  evalsha(sha: string, keys: number, ...args: (string | number)[]): Promise<unknown>
  /** `PUBLISH channel message`. */
  publish(channel: string, message: string): Promise<unknown>
  /** `SUBSCRIBE channel …`; resolves once the server has confirmed. */
  subscribe(...channels: string[]): Promise<unknown>
  /** `UNSUBSCRIBE channel …`. */
  unsubscribe(...channels: string[]): Promise<unknown>
  /** A connection of our own, for notices; in a Cluster it is made of one of its `nodes`. */
  duplicate(...options: never[]): RedisClient
  /** The connections of a Cluster: all, or those of a role. */
  nodes?(role?: 'master'): RedisClient[]
  /** `PING`. */
  ping(): Promise<unknown>
  /** Closes the connection at once; with `true` the client connects again. */
  disconnect(reconnect?: boolean): void
  /** Options of the client. */
  readonly options?: { readonly keyPrefix?: string | undefined }
  /** State of the connection: `ready`, `connecting`, … */
  readonly status?: string
  /** The socket. */
  readonly stream?: { readonly bytesRead?: number } | null
  /** Listens to `message`, `ready` and `error`. */
  on(event: string, listener: (...args: string[]) => void): unknown
}
