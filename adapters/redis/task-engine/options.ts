import type { ConnectionOptions } from 'bullmq'
import { checkNames } from '../../../src/runtime/option-names.js'
import { shareLimits, type ShareLimits, checkNamespace } from '../../../src/stores/share-limits.js'
import type { RedisClient } from '../client.js'

/** Options of `RedisTaskEngine`. */
export interface RedisTaskEngineOptions {
  /** Your ioredis client (5 or 6): single, Cluster or Sentinel. You close it yourself. */
  readonly client: RedisClient
  /**
   * Connection of BullMQ: its options, or an ioredis client with `maxRetriesPerRequest: null`, which
   * you close. Without `enableAutoPipelining`. Default: `client`, or a copy of it if its options do
   * not suit BullMQ.
   */
  readonly connection?: ConnectionOptions
  /**
   * Prefix of all keys and channels: 1 to 64 of `A-Z a-z 0-9 . _ -`. In keys it is the hash tag, in
   * braces, so that all keys are on one node of a Redis Cluster. Each application on one Redis needs
   * its own. Default `longhaul`.
   */
  readonly namespace?: string
  /**
   * BullMQ's name of the queue of the default pool. The queue of the pool `heavy` has the name
   * `tasks.heavy`. Default `tasks`.
   */
  readonly name?: string
  /** Maximum time of one call, in milliseconds, 10 to 4000. A slower call fails. Default 1500. */
  readonly timeoutMs?: number
  /**
   * Time without a sign of life after which another process may take a run, in milliseconds, from
   * 100. Default 15,000.
   */
  readonly leaseMs?: number
  /**
   * Maximum number of finished tasks of one owner. Beyond it, the owner loses its own oldest.
   * Default 100,000.
   */
  readonly maxEntriesPerOwner?: number
  /** Maximum size of these tasks in bytes. Default 64 MiB. */
  readonly maxBytesPerOwner?: number
  /** Receives errors of BullMQ. Default: none, because the calls themselves fail. */
  readonly onError?: (error: Error) => void
}

/** Names of the options. */
export const REDIS_TASK_ENGINE = {
  client: 0, connection: 0, namespace: 0, name: 0, timeoutMs: 0, leaseMs: 0, maxEntriesPerOwner: 0,
  maxBytesPerOwner: 0, onError: 0,
} satisfies Record<keyof RedisTaskEngineOptions, 0>

/** Options with their defaults. */
export type CheckedOptions = Required<Pick<
  RedisTaskEngineOptions, 'client' | 'namespace' | 'name' | 'timeoutMs' | 'leaseMs' | 'onError'
>> & { readonly share: ShareLimits }

/** @throws {TypeError} An option is unknown or out of range. */
export function checkOptions(options: RedisTaskEngineOptions): CheckedOptions {
  checkNames('RedisTaskEngine', options, REDIS_TASK_ENGINE)
  const {
    client, namespace = 'longhaul', name = 'tasks', timeoutMs = 1500, leaseMs = 15_000,
    onError = () => undefined,
  } = options
  if (typeof client?.evalsha !== 'function' || typeof client.duplicate !== 'function') {
    const advice = 'new Redis(url), or new Redis.Cluster([…])'
    throw new TypeError(`RedisTaskEngine: client must be an ioredis client: ${advice}`)
  }
  checkNamespace('RedisTaskEngine', namespace)
  checkRange('timeoutMs', timeoutMs, 10, 4000)
  checkRange('leaseMs', leaseMs, 100, 86_400_000)
  const share = shareLimits('RedisTaskEngine', options)
  return { client, namespace, name, timeoutMs, leaseMs, share, onError }
}

function checkRange(name: string, value: number, low: number, high: number): void {
  if (value >= low && value <= high) return
  const range = `from ${String(low)} to ${String(high)}`
  throw new TypeError(`RedisTaskEngine: ${name} must be ${range}, not ${String(value)}`)
}
