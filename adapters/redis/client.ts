/**
 * What longhaul uses of a Redis client: ioredis 5 or 6, a single server, a Cluster or Sentinel. Told by shape, so
 * that any version of the caller's fits. The caller makes it, configures it and closes it.
 */
export interface RedisClient {
  get(key: string): Promise<string | null>
  set(key: string, value: string, pxat: 'PXAT', expiresAt: number, nx: 'NX'): Promise<unknown>
  eval(script: string, keys: number, ...args: (string | number)[]): Promise<unknown>
  evalsha(sha: string, keys: number, ...args: (string | number)[]): Promise<unknown>
  publish(channel: string, message: string): Promise<unknown>
  subscribe(...channels: string[]): Promise<unknown>
  unsubscribe(...channels: string[]): Promise<unknown>
  /** A connection of our own, for notices; in a Cluster it is made of one of its `nodes`. */
  duplicate(...options: never[]): RedisClient
  nodes?(role: 'master'): RedisClient[]
  disconnect(): void
  on(event: string, listener: (...args: string[]) => void): unknown
}
