import type { ConnectionOptions, Queue } from 'bullmq'
import type {
  CreateOptions, PoolCounts, TaskEngine, TaskQuery, WorkHandlers, WorkOptions,
} from '../../src/engine/engine.js'
import { nameFault } from '../../src/engine/names.js'
import {
  createdTask, type Changed, type Created, type Expected, type NewTask, type StoredTask,
  type TaskChange, type TaskRef,
} from '../../src/engine/task.js'
import { duration, func, readOptions, text, value, type OptionTable } from '../../src/runtime/options.js'
import { OwnContext } from '../../src/runtime/own-context.js'
import { newId } from '../../src/runtime/random-id.js'
import type { ShareLimits } from '../../src/stores/share-limits.js'
import { readsReplicas, REDIS, type Numeric, type RedisClient } from './client.js'
import { Connection } from './connection.js'
import { changeArguments, createArgument, pageArgument, toTask, type Row } from './rows.js'
import { CHANGE, CREATE, DELETE, NOW, PROBE, READ } from './task-scripts.js'
import { Tickets } from './tickets.js'
import { Worker } from './worker.js'
import { COUNTS, PAGE } from './work-scripts.js'

/** Options of `RedisTaskEngine`. */
export interface RedisTaskEngineOptions {
  /** Your ioredis client (5 or 6): single, Cluster or Sentinel. You close it yourself. */
  readonly client: RedisClient
  /**
   * Connection of BullMQ: its options, or an ioredis client with `maxRetriesPerRequest: null` and
   * without `enableAutoPipelining`, which you close. Default: `client`, or a copy with other options.
   */
  readonly connection?: ConnectionOptions
  /**
   * Prefix of all keys and channels: 1 to 64 of `A-Z a-z 0-9 . _ -`. In keys it is the hash tag, so that
   * a Cluster keeps them on one node. Each application on one Redis needs its own. Default `longhaul`.
   */
  readonly namespace?: string
  /** BullMQ's queue of the default pool; that of the pool `heavy` is `tasks.heavy`. Default `tasks`. */
  readonly name?: string
  /** Maximum time of one call, in milliseconds. A slower call fails. Default 1500. */
  readonly timeoutMs?: number
  /**
   * Time without a renewal after which another process takes a run, in milliseconds: from 100 to
   * 86,400,000. A process renews its runs at a third of it. Default 15,000.
   */
  readonly leaseMs?: number
  /**
   * Maximum number of finished tasks of one owner, and of its stored responses and finished uploads.
   * Beyond it, the owner loses its own oldest. Default 100,000.
   */
  readonly maxEntriesPerOwner?: number
  /** Maximum size of these tasks in bytes, and of these entries. Default 64 MiB. */
  readonly maxBytesPerOwner?: number
  /** Receives errors of BullMQ. Default: none, because the calls themselves fail. */
  readonly onError?: (error: Error) => void
}

export const REDIS_TASK_ENGINE = {
  ...REDIS,
  connection: value(),
  name: text({ default: 'tasks' }),
  timeoutMs: duration({ min: 10, max: 4000, default: 1500 }),
  leaseMs: duration({ min: 100, max: 86_400_000, default: 15_000 }),
  onError: func(),
} satisfies OptionTable<RedisTaskEngineOptions>

/**
 * Task engine on Redis 6.2 or later (or Valkey), and BullMQ, which is loaded at the first task. A task is
 * one hash. A script makes each change of it, together with everything that depends on it. Ready tasks
 * have a job in BullMQ, in turns between callers. The hash decides whether a run begins.
 */
export class RedisTaskEngine implements TaskEngine {
  readonly shared = true
  readonly durable = true
  readonly hasTransactions = false
  private readonly connection: Connection
  private readonly share: ShareLimits
  private readonly tickets: Tickets
  private readonly worker: Worker
  /** Time of Redis minus that of the monotonic clock, and until when it is used by the latter. */
  private clockOffset = 0
  private clockUntil = 0
  private closing: Promise<void> | undefined

  /** @throws {TypeError} An option is unknown or out of range. */
  constructor(options: RedisTaskEngineOptions) {
    const {
      client, namespace, name, timeoutMs, leaseMs, maxEntriesPerOwner, maxBytesPerOwner, connection,
      onError: listener = () => undefined,
    } = readOptions('RedisTaskEngine', options, REDIS_TASK_ENGINE)
    const context = new OwnContext()
    const onError = (error: Error): void => { context.run(listener, error) }
    const calls = this.connection = new Connection(client, timeoutMs, `{${namespace}}:task:`)
    this.share = { maxEntries: maxEntriesPerOwner, maxBytes: maxBytesPerOwner }
    this.tickets = new Tickets({
      calls, connection, namespace, name, lockMs: leaseMs, onError,
      onLate: (error) => { this.worker.noteLate(error) },
      onReply: () => { this.worker.noteReply() },
    })
    this.worker = new Worker(calls, this.tickets, leaseMs, onError)
  }

  create(task: NewTask, { transaction }: CreateOptions = {}): Promise<Created> {
    if (transaction !== undefined) {
      return Promise.reject(new TypeError('transaction needs the engine of longhaul/postgres'))
    }
    const fault = nameFault(task)
    if (fault) return Promise.reject(fault)
    return this.worker.change('create', CREATE, [createArgument(task)], (result: CreateResult) => {
      if (result[0] === 'caller_full') return { outcome: result[0] }
      if (result[0] !== 'new') return { outcome: result[0], task: toTask(result[1]) }
      const [, createdAt, startAt, expiresAt] = result
      const created = createdTask(
        task, Number(createdAt), Number(startAt) || undefined, Number(expiresAt),
      )
      return { outcome: 'created', task: created }
    })
  }

  async read(id: string): Promise<StoredTask | undefined> {
    const { connection } = this
    // A command costs less than a script, but only a script knows the time of Redis.
    if (performance.now() < this.clockUntil) {
      const task = await connection.call('read', () => (
        connection.client.hmget(`${connection.base}h:${id}`, 'm', 'details', 'result')
      ), ([m, ...rest]) => (m ? toTask([m, ...rest] as unknown as Row) : undefined))
      const now = performance.now() + this.clockOffset
      if (!task || task.expiresAt - now > CLOCK_MARGIN_MS) return task
    }
    return this.readNow([id])
  }

  readByKey(key: string): Promise<StoredTask | undefined> {
    return this.readNow([key, 'key'])
  }

  change(ref: TaskRef, expected: Expected, change: TaskChange): Promise<Changed> {
    const args = changeArguments(ref, expected, change, newId(), this.share)
    return this.worker.change('change', CHANGE, args, ([outcome, row]: ChangeResult) => {
      if (outcome === 'caller_full') return { outcome }
      return outcome === 'changed' ? { outcome, task: toTask(row, change) } : { outcome, task: taskIn(row) }
    })
  }

  delete({ id, birth }: TaskRef, version: number): Promise<StoredTask | undefined> {
    return this.worker.change('delete', DELETE, [id, birth, version], ([row]) => taskIn(row))
  }

  /** @throws {Error} `work` was called before. */
  work(options: WorkOptions, handlers: WorkHandlers): void {
    this.worker.begin(options, handlers)
  }

  watch(id: string, listener: () => void): Promise<() => void> {
    return this.connection.watch(`${this.connection.base}w:${id}`, listener)
  }

  list(query: TaskQuery): Promise<readonly StoredTask[]> {
    const args = [pageArgument(query)]
    return this.worker.change('list', PAGE, args, ([rows]: [Row[]]) => rows.map((row) => toTask(row)))
  }

  counts(pool: string): Promise<PoolCounts> {
    return this.connection.run('counts', COUNTS, [pool], (reply: CountsReply) => {
      const [running = 0, waiting = 0, delayed = 0, oldest = 0] = reply.map(Number)
      const counts = { running, waiting, delayed }
      return waiting > 0 ? { ...counts, oldestWaitingMs: Math.max(oldest, 0) } : counts
    })
  }

  now(): Promise<number> {
    return this.connection.run('now', NOW, [], Number)
  }

  /** Writes a key that nothing reads. */
  probe(): Promise<unknown> {
    return this.connection.run('probe', PROBE, [], (reply) => reply)
  }

  close({ drainMs }: { readonly drainMs: number }): Promise<void> {
    return this.closing ??= this.worker.close(drainMs).then(() => { this.connection.release() })
  }

  /**
   * Returns BullMQ's queue of a pool, for a board such as Bull Board. Each job is a task that waits or
   * runs: its name is that of the definition, and its data is the `taskId`. Do not change jobs.
   *
   * @param pool - name of the pool of the definition. Default: the default pool
   *
   * @example
   * import { BullMQAdapter } from '@bull-board/api/bullMQAdapter'
   *
   * const { engine } = redis({ client })
   * const queues = [new BullMQAdapter(engine.bull()), new BullMQAdapter(engine.bull('heavy'))]
   */
  bull(pool = 'default'): Queue {
    return this.tickets.queueOf(pool) as Queue
  }

  private readNow(args: readonly string[]): Promise<StoredTask | undefined> {
    return this.connection.run('read', READ, args, ([now, row]: ReadReply) => {
      this.clockOffset = Number(now) - performance.now()
      // A replica may not know the task yet.
      if (!readsReplicas(this.connection.client)) this.clockUntil = performance.now() + CLOCK_MS
      return taskIn(row)
    })
  }
}

/** Time for which the clock of Redis is known from one reply, in milliseconds. */
const CLOCK_MS = 60_000
/** Lifetime below which Redis itself decides whether a task has expired, in milliseconds. */
const CLOCK_MARGIN_MS = 60_000

type CreateResult = readonly ['created' | 'exists', Row] | readonly ['caller_full']
  | readonly ['new', createdAt: Numeric, startAt: Numeric, expiresAt: Numeric]
type ReadReply = readonly [now: Numeric, row?: Row | null]
type CountsReply = readonly Numeric[]
type ChangeResult = readonly ['changed', Row] | readonly ['conflict', Row?] | readonly ['caller_full', null?]

function taskIn(row: unknown): StoredTask | undefined {
  return row ? toTask(row as Row) : undefined
}
