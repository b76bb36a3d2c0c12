import type {
  CreateOptions, PoolCounts, TaskEngine, TaskQuery, WorkHandlers, WorkOptions,
} from '../../src/engine/engine.js'
import {
  createdTask, nameFault, type Changed, type Created, type Expected, type NewTask,
  type StoredTask, type TaskChange, type TaskRef,
} from '../../src/engine/task.js'
import { readOptions } from '../../src/runtime/options.js'
import type { StoreEvent } from '../../src/stores/calls.js'
import { readsReplicas, REDIS, runScript, type Numeric, type RedisOptions, type Script } from './client.js'
import { Connection } from './connection.js'
import { createArgument, pageArgument, toTask, type Row } from './rows.js'
import {
  COUNTS, CREATE, DELETE, PAGE, PAUSE, PAUSED, PROBE, READ, READ_BY_KEY,
} from './task-scripts.js'
import { Worker } from './worker.js'

/**
 * Task engine on Redis 6.0 or later (or Valkey). A task is one hash. A script makes each change of it,
 * together with everything that depends on it. What is due stands in sorted sets, in turns between
 * callers, and one script ends the runs of a process and begins the next ones.
 */
export class RedisTaskEngine implements TaskEngine {
  readonly shared = true
  readonly durable = true
  readonly hasTransactions = false
  private readonly connection: Connection
  private readonly worker: Worker
  /**
   * Difference between the time of Redis and the monotonic clock, and the time until which it is
   * used.
   */
  private clockOffset = 0
  private clockUntil = 0
  private closing: Promise<void> | undefined

  /** @throws {TypeError} An option is unknown or out of range. */
  constructor(options: RedisOptions) {
    const { client, namespace, timeoutMs, leaseMs, maxEntriesPerOwner, maxBytesPerOwner } =
      readOptions('redis', options, REDIS)
    const connection = this.connection = new Connection(client, timeoutMs, `{${namespace}}:engine:`)
    const share = { maxEntries: maxEntriesPerOwner, maxBytes: maxBytesPerOwner }
    this.worker = new Worker(connection, leaseMs, share)
  }

  create(task: NewTask, { transaction }: CreateOptions = {}): Promise<Created> {
    if (transaction !== undefined) {
      return Promise.reject(new TypeError('transaction needs the engine of longhaul/postgres'))
    }
    const fault = nameFault(task)
    if (fault) return Promise.reject(fault)
    return this.run('create', CREATE, [createArgument(task)], (result: CreateResult) => {
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
    // The only key of this script is that of the task, so it also works while its slot moves.
    return this.readNow(() => runScript(connection.client, READ, 1, `${connection.base}h:${id}`))
  }

  readByKey(key: string): Promise<StoredTask | undefined> {
    return this.readNow(() => this.connection.send(READ_BY_KEY, [key]))
  }

  change(ref: TaskRef, expected: Expected, change: TaskChange): Promise<Changed> {
    return this.worker.change(ref, expected, change)
  }

  delete({ id, birth }: TaskRef, version: number): Promise<StoredTask | undefined> {
    return this.run('delete', DELETE, [id, birth, version], ([row]) => taskIn(row))
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
    return this.run('list', PAGE, args, ([rows]: [Row[]]) => rows.map((row) => toTask(row)))
  }

  counts(pool: string): Promise<PoolCounts> {
    return this.connection.run('counts', COUNTS, [pool], (reply: readonly Numeric[]) => {
      const [running = 0, waiting = 0, delayed = 0, oldest = 0] = reply.map(Number)
      const counts = { running, waiting, delayed }
      return waiting > 0 ? { ...counts, oldestWaitingMs: Math.max(oldest, 0) } : counts
    })
  }

  setPaused(pool: string, isPaused: boolean): Promise<void> {
    return this.run('change', PAUSE, [pool, isPaused ? 'paused' : ''], () => undefined)
  }

  pausedPools(): Promise<readonly string[]> {
    return this.connection.run('read', PAUSED, [], (pools: string[]) => pools.sort())
  }

  now(): Promise<number> {
    const { client, base } = this.connection
    return this.connection.call('now', () => runScript(client, READ, 1, `${base}h:`), (reply) => Number((reply as ReadReply)[0]))
  }

  /** Writes a key that nothing reads. */
  probe(): Promise<unknown> {
    return this.connection.run('probe', PROBE, [], (reply) => reply)
  }

  close({ drainMs }: { readonly drainMs: number }): Promise<void> {
    return this.closing ??= this.worker.close(drainMs).then(() => { this.connection.watches.release() })
  }

  /** Runs a script that changes tasks. Rejects with a `StoreUnavailableError`. */
  private run<Result extends readonly unknown[], T>(
    verb: StoreEvent['verb'], script: Script, args: readonly (string | number)[],
    read: (result: Result) => T,
  ): Promise<T> {
    return this.connection.run(verb, script, args, (reply: readonly [Numeric | null, ...unknown[]]) => {
      const [due, ...result] = reply
      this.worker.noteDue(due)
      return read(result as unknown as Result)
    })
  }

  private readNow(send: () => Promise<unknown>): Promise<StoredTask | undefined> {
    return this.connection.call('read', send, (reply) => {
      const [now, row] = reply as ReadReply
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

type CreateResult = readonly ['created' | 'exists' | 'replaced', Row] | readonly ['caller_full']
  | readonly ['new', createdAt: Numeric, startAt: Numeric, expiresAt: Numeric]
type ReadReply = readonly [now: Numeric, row?: Row | null]

function taskIn(row: unknown): StoredTask | undefined {
  return row ? toTask(row as Row) : undefined
}
