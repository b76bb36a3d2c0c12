import type { ConnectionOptions } from 'bullmq'
import { checkNames } from '../../src/runtime/option-names.js'
import { checkNamespace } from '../../src/stores/namespace.js'
import { BullQueueAdapter, checkTimeout } from './bull-queue.js'
import { RedisBackend } from './redis-backend.js'

/** Options of `BullMQQueue`. */
export interface BullMQQueueOptions {
  /**
   * Options of a connection, or an ioredis client with `maxRetriesPerRequest: null`, which the
   * caller closes. Without `enableAutoPipelining`, which costs a third of the throughput.
   */
  readonly connection: ConnectionOptions
  /**
   * Namespace of the store: 1 to 64 of `A-Z a-z 0-9 . _ -`. BullMQ's key prefix is the namespace in
   * braces, so that all keys of a queue are on one node of a Redis Cluster.
   * @default 'longhaul'
   */
  readonly namespace?: string
  /**
   * BullMQ's name of the queue, unique in the namespace. The queue of the pool `heavy` has the name
   * `tasks.heavy`.
   * @default 'tasks'
   */
  readonly name?: string
  /**
   * Maximum time of an enqueue or a removal, in milliseconds.
   * @default 1500
   */
  readonly timeoutMs?: number
  /**
   * Time without a sign of life after which a job is taken from its worker, in milliseconds.
   * @default 30_000
   */
  readonly lockDurationMs?: number
  /**
   * Interval of the checks for silent workers, in milliseconds.
   * @default 30_000
   */
  readonly stalledIntervalMs?: number
  /**
   * Maximum number of times that a job may lose its worker. Then the job is dead.
   * @default 1
   */
  readonly maxStalledCount?: number
  /** Receives errors of the connection. Default: none, because the calls themselves fail. */
  readonly onError?: (error: Error) => void
}

const KNOWN = {
  connection: 0, namespace: 0, name: 0, timeoutMs: 0, lockDurationMs: 0, stalledIntervalMs: 0,
  maxStalledCount: 0, onError: 0,
} satisfies Record<keyof BullMQQueueOptions, 0>

/**
 * A queue on BullMQ 6 and Redis. BullMQ does retries, back-off, delays, stalled jobs and
 * concurrency. Each task is a job with the name of its definition and the id of the task, so a
 * board shows both. `PostgresQueue` of `longhaul/postgres` is the same on PostgreSQL.
 *
 * @example
 * const queue = new BullMQQueue({ connection: { host: '127.0.0.1', port: 6379 } })
 * const tasks = createTasks({ ...redis({ client }), queue, definitions: [report] })
 */
export class BullMQQueue extends BullQueueAdapter {
  /** @throws {TypeError} `connection` is missing, or an option is unknown or out of range. */
  constructor(options: BullMQQueueOptions) {
    checkNames('BullMQQueue', options, KNOWN)
    const { connection, namespace = 'longhaul', name = 'tasks', timeoutMs = 1500 } = options
    if (typeof connection !== 'object') {
      throw new TypeError(
        'BullMQQueue: connection must be an ioredis client, or its options such as { host, port }',
      )
    }
    checkNamespace('BullMQQueue', namespace)
    checkTimeout('BullMQQueue', timeoutMs)
    const open = (queue: string) => new RedisBackend(connection, namespace, queue, timeoutMs)
    super(open(name), { ...options, timeoutMs }, (pool) => open(`${name}.${pool}`))
  }
}
