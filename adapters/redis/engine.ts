import { randomBytes } from 'node:crypto'
import type { ConnectionOptions, Queue } from 'bullmq'
import type {
  CreateOptions, PoolCounts, TaskEngine, TaskQuery, WorkHandlers, WorkOptions,
} from '../../src/engine/engine.js'
import type {
  Changed, Created, Expected, NewTask, StoredTask, TaskChange, TaskRef,
} from '../../src/engine/task.js'
import type { Notices } from '../../src/runtime/notices.js'
import { duration, func, readOptions, text, value, type OptionTable } from '../../src/runtime/options.js'
import { observed, type Breaker, type StoreEvent } from '../../src/stores/calls.js'
import { noticesOf, REDIS, runScript, type RedisClient, type Script } from './client.js'
import { redisBreaker, Silence } from './faults.js'
import {
  changeArguments, createArguments, expectedArguments, pageArguments, toTask, type Row,
} from './rows.js'
import { CHANGE, CREATE, DELETE, NOW, READ } from './task-scripts.js'
import { BullConnection, Tickets, type Ticket } from './tickets.js'
import { Watches } from './watches.js'
import { Worker } from './worker.js'
import { COUNTS, PAGE } from './work-scripts.js'

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

export const REDIS_TASK_ENGINE = {
  ...REDIS,
  connection: value(),
  name: text({ default: 'tasks' }),
  timeoutMs: duration({ min: 10, max: 4000, default: 1500 }),
  leaseMs: duration({ min: 100, max: 86_400_000, default: 15_000 }),
  onError: func(),
} satisfies OptionTable<RedisTaskEngineOptions>

/**
 * Task engine on Redis 6.2 or later (or Valkey), and BullMQ. A task is one hash. A script makes each
 * change of it, together with everything that depends on it: one round trip. Ready tasks have a job
 * in BullMQ, in turns between callers. The job only says that a task is ready; the hash decides
 * whether a run begins.
 *
 * Needs the package `bullmq`, which is loaded at the first task.
 *
 * @example
 * const engine = new RedisTaskEngine({ client, namespace: 'shop', leaseMs: 30_000 })
 */
export class RedisTaskEngine implements TaskEngine {
  readonly shared = true
  readonly durable = true
  readonly hasTransactions = false
  private readonly client: RedisClient
  private readonly base: string
  /** Start of the names of channels. */
  private readonly channels: string
  private readonly share: readonly [number, number]
  private readonly leaseMs: number
  private readonly onError: (error: Error) => void
  private readonly silence: Silence
  private readonly breaker: Breaker
  private watches: Watches | undefined
  private stopListening: (() => void)[] = []
  private readonly connection: BullConnection
  private readonly tickets: Tickets
  private readonly id = randomBytes(9).toString('base64url')
  private calls = 0
  private worker: Worker | undefined
  private closing: Promise<void> | undefined
  private isClosed = false
  private readonly notices: Notices

  /** @throws {TypeError} An option is unknown or out of range. */
  constructor(options: RedisTaskEngineOptions) {
    const {
      client, namespace, name, timeoutMs, leaseMs, maxEntriesPerOwner, maxBytesPerOwner,
      connection: given, onError = () => undefined,
    } = readOptions('RedisTaskEngine', options, REDIS_TASK_ENGINE)
    this.client = client
    this.base = `{${namespace}}:task:`
    this.channels = `${namespace}:task:`
    this.notices = noticesOf(client)
    this.share = [maxEntriesPerOwner, maxBytesPerOwner]
    this.leaseMs = leaseMs
    this.onError = onError
    this.silence = new Silence(() => client, timeoutMs)
    this.breaker = redisBreaker(timeoutMs, () => { void this.silence.check() })
    const connection = this.connection = new BullConnection(client, given, namespace)
    this.tickets = new Tickets({ connection, name, lockMs: leaseMs, timeoutMs, onError })
  }

  async create(task: NewTask, { transaction }: CreateOptions = {}): Promise<Created> {
    if (transaction !== undefined) {
      throw new TypeError('transaction needs the engine of longhaul/postgres')
    }
    const args = createArguments(task)
    const { start } = task
    const [outcome, row, tickets] = await this.run('create', CREATE, ...args) as [
      'created' | 'exists' | 'caller_full', Row | null, Ticket[],
    ]
    this.addTickets(tickets)
    if (row === null) return { outcome: 'caller_full' }
    const stored = toTask(row)
    if (start !== undefined && stored.startAt !== undefined) {
      this.worker?.tickIn(stored.startAt - stored.createdAt)
    }
    return { outcome: outcome as 'created' | 'exists', task: stored }
  }

  async read(id: string): Promise<StoredTask | undefined> {
    return taskIn(await this.run('read', READ, 'id', id))
  }

  async readByKey(key: string): Promise<StoredTask | undefined> {
    return taskIn(await this.run('read', READ, 'key', key))
  }

  async change(ref: TaskRef, expected: Expected, change: TaskChange): Promise<Changed> {
    const args = [
      ref.id, ref.birth, ...expectedArguments(expected), this.nonce(), ...this.share,
      ...changeArguments(change),
    ]
    const [outcome, row, tickets] = await this.run('change', CHANGE, ...args) as [
      'changed' | 'conflict' | 'caller_full', Row | null, Ticket[],
    ]
    this.addTickets(tickets)
    if (outcome === 'caller_full') return { outcome }
    const { callbackMs, delayMs = 0 } = change
    if (typeof callbackMs === 'number') this.expectDue(callbackMs)
    if (delayMs > 0) this.worker?.tickIn(delayMs)
    if (outcome === 'changed') return { outcome, task: toTask(row as Row) }
    return { outcome, task: taskIn(row) }
  }

  async delete({ id, birth }: TaskRef, version: number): Promise<StoredTask | undefined> {
    const reply = await this.run('delete', DELETE, id, birth, version)
    if (reply !== 1) return taskIn(reply)
    this.expectDue(0)
    return undefined
  }

  /** @throws {Error} `work` was called before. */
  work(options: WorkOptions, handlers: WorkHandlers): void {
    if (this.worker) throw new Error('work() was called before: an engine has one worker')
    const { tickets, leaseMs, id, onError } = this
    const worker = this.worker = new Worker({
      tickets, leaseMs, id, onError,
      run: (verb, script, ...args) => this.run(verb, script, ...args),
      nonce: () => this.nonce(),
      addTickets: (added) => { this.addTickets(added) },
    }, options, handlers)
    // A lost notice is harmless: the worker also searches every second.
    const listen = (channel: string, listener: () => void): void => {
      const { active, remove } = this.listen(channel, listener)
      active.catch(() => undefined)
      this.stopListening.push(remove)
    }
    for (const pool of options.places.pools.keys()) {
      listen(`t:${pool}`, () => { worker.pump(pool) })
    }
    listen('c', () => { worker.tickIn(0) })
    listen(`k:${id}`, () => { worker.checkRuns() })
  }

  async watch(id: string, listener: () => void): Promise<() => void> {
    let remove: (() => void) | undefined
    try {
      await this.call('watch', () => {
        const watch = this.listen(`w:${id}`, listener)
        remove = watch.remove
        return watch.active
      })
    } catch (error) {
      remove?.()
      throw error
    }
    return remove as () => void
  }

  async list(query: TaskQuery): Promise<readonly StoredTask[]> {
    const [rows, tickets] = await this.run('list', PAGE, ...pageArguments(query)) as [Row[], Ticket[]]
    this.addTickets(tickets)
    return rows.map(toTask)
  }

  async counts(pool: string): Promise<PoolCounts> {
    const [running, waiting, delayed, oldest] = await this.run('counts', COUNTS, pool) as [
      number, number, number, (number | null)?,
    ]
    const counts = { running, waiting, delayed }
    return waiting > 0 ? { ...counts, oldestWaitingMs: Math.max(oldest ?? 0, 0) } : counts
  }

  now(): Promise<number> {
    return this.run('now', NOW) as Promise<number>
  }

  close({ drainMs }: { readonly drainMs: number }): Promise<void> {
    this.closing ??= this.shutDown(drainMs)
    return this.closing
  }

  /**
   * Returns BullMQ's own queue of a pool, for a board such as Bull Board. Each of its jobs is a task
   * that waits or runs. The name of the job is the name of the definition, and its data is the
   * `taskId`. Use a board to look only: `tasks.cancel` and `tasks.retry` change a task.
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

  private async shutDown(drainMs: number): Promise<void> {
    if (this.worker) await this.worker.close(drainMs)
    else await this.tickets.close(1500)
    this.isClosed = true
    for (const stop of this.stopListening) stop()
    this.closeUnwatched()
    this.silence.close()
    this.connection.close()
  }

  /** Listens to a channel. The connection for notices stays open until the engine is closed. */
  private listen(
    channel: string, listener: () => void,
  ): { readonly active: Promise<void>, readonly remove: () => void } {
    const watches = this.watches ??= new Watches(this.client)
    const { active, remove } = watches.add(this.channels + channel, listener)
    return {
      active,
      remove: () => {
        remove()
        this.closeUnwatched()
      },
    }
  }

  private closeUnwatched(): void {
    if (!this.isClosed || (this.watches?.size ?? 0) > 0) return
    this.watches?.close()
    this.watches = undefined
  }

  private run(
    verb: StoreEvent['verb'], script: Script, ...args: (string | number)[]
  ): Promise<unknown> {
    return this.call(verb, () => (
      runScript(this.client, script, 1, this.base, this.channels, ...args)
    ))
  }

  private call<T>(verb: StoreEvent['verb'], work: () => Promise<T>): Promise<T> {
    return observed(verb, () => this.breaker.call(work, (reply) => reply))
  }

  private nonce(): string {
    return this.id + (this.calls++).toString(36)
  }

  /** Adds jobs to BullMQ. Nobody waits for it: a lost ticket is found again. */
  private addTickets(tickets: readonly Ticket[]): void {
    if (tickets.length === 0 || this.isClosed) return
    this.tickets.add(tickets).then(() => {
      for (const [pool] of tickets) if (!this.worker?.pump(pool)) this.notices.add(`${this.channels}t:${pool}`)
    }, (error: unknown) => {
      if (!this.isClosed) this.onError(error as Error)
    })
  }

  /** A callback, or the removal of files, is due after `delayMs`. */
  private expectDue(delayMs: number): void {
    this.worker?.tickIn(delayMs)
    if (delayMs === 0) this.notices.add(`${this.channels}c`)
  }
}

function taskIn(reply: unknown): StoredTask | undefined {
  return reply === null ? undefined : toTask(reply as Row)
}
