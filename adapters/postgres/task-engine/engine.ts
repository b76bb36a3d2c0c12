import type {
  CreateOptions, PoolCounts, TaskEngine, TaskQuery, Transaction, WorkHandlers, WorkOptions,
} from '../../../src/engine/engine.js'
import {
  isFinalStatus, type Changed, type Created, type Expected, type NewTask, type StoredTask,
  type TaskChange, type TaskRef,
} from '../../../src/engine/task.js'
import { setTimeout } from '../../../src/runtime/timers.js'
import { observed } from '../../../src/stores/calls.js'
import type { ShareLimits } from '../../../src/stores/share-limits.js'
import type { Database } from '../database.js'
import { Sweeper } from '../expiry.js'
import { ChangeNotices } from '../notices.js'
import { checkText } from '../sql.js'
import { acquire, checkOpen, queryOf } from '../transaction.js'
import { Changes } from './changes.js'
import { Creates } from './creates.js'
import { CallerShares, expiredTasks } from './expiry.js'
import { TaskReads } from './reads.js'
import { NOW } from './rows.js'
import { STOP, Worker } from './worker.js'

/**
 * Time after which a transaction of the application has probably committed, in milliseconds. Tasks of
 * a later commit are found by the next look.
 */
const COMMIT_MS = 100

/** Settings of a `PostgresTaskEngine`. */
export interface TaskEngineSettings {
  /** Limits of what the final tasks of one caller keep. */
  readonly limits: ShareLimits
  /** Time without a renewal after which another process takes a run, in milliseconds. */
  readonly leaseMs: number
}

/**
 * Task engine on PostgreSQL 13 or later, or on PGlite: one row for each task. Made by `postgres()`. A task that nobody
 * else works on takes three statements: one creates it, one begins its run, and one ends it. Calls
 * of one turn of the event loop share statements.
 */
export class PostgresTaskEngine implements TaskEngine {
  readonly shared: boolean
  readonly durable = true
  readonly hasTransactions = true
  private readonly reads: TaskReads
  private readonly creates: Creates
  private readonly changes: Changes
  private readonly shares: CallerShares
  private readonly notices: ChangeNotices
  private readonly worker: Worker
  private readonly sweeper: Sweeper

  /** @internal */
  constructor(
    private readonly database: Database, { limits, leaseMs }: TaskEngineSettings,
  ) {
    const { schema, repeated, background } = database
    this.shared = database.shared
    this.reads = new TaskReads(schema, repeated)
    this.creates = new Creates(database, this.reads)
    this.changes = new Changes(database, this.reads, (...made) => { this.noteChange(...made) })
    this.notices = new ChangeNotices(database.channel, 'task:')
    this.worker = new Worker(database, this.notices, leaseMs)
    this.shares = new CallerShares(background, schema, limits, (ids, hasFiles) => {
      for (const id of ids) this.notices.notify(id)
      if (hasFiles) this.worker.look()
    })
    this.sweeper = new Sweeper(expiredTasks(background, schema))
  }

  async create(task: NewTask, { transaction }: CreateOptions = {}): Promise<Created> {
    if (transaction !== undefined) return this.createWithin(transaction, task)
    const created = await observed('create', () => this.creates.create(task))
    if (created.outcome === 'created') this.noteCreated(created.task)
    return created
  }

  async read(id: string): Promise<StoredTask | undefined> {
    checkText(id)
    return observed('read', () => this.reads.read(id))
  }

  async readByKey(key: string): Promise<StoredTask | undefined> {
    checkText(key)
    return observed('read', () => this.reads.readByKey(key))
  }

  async change(ref: TaskRef, expected: Expected, change: TaskChange): Promise<Changed> {
    return observed('change', () => this.changes.change({ ref, expected, change }))
  }

  async delete(ref: TaskRef, version: number): Promise<StoredTask | undefined> {
    const task = await observed('delete', () => this.changes.delete(ref, version))
    if (task === undefined) this.notices.notify(ref.id)
    return task
  }

  /** @throws {Error} `work` was called before. */
  work(options: WorkOptions, handlers: WorkHandlers): void {
    this.worker.begin(options, handlers)
  }

  async watch(id: string, listener: () => void): Promise<() => void> {
    checkText(id)
    return observed('watch', () => this.notices.watch(id, listener))
  }

  async list(query: TaskQuery): Promise<readonly StoredTask[]> {
    return observed('list', () => this.reads.page(query))
  }

  async counts(pool: string): Promise<PoolCounts> {
    return observed('counts', () => this.reads.counts(pool))
  }

  async now(): Promise<number> {
    const [row] = await observed('now', () => (
      this.database.repeated<{ readonly now: number }>(`SELECT ${NOW} AS now`)
    ))
    return row?.now as number
  }

  async close({ drainMs }: { readonly drainMs: number }): Promise<void> {
    await this.worker.close(drainMs)
    this.sweeper.close()
    await this.notices.close()
  }

  private async createWithin(transaction: Transaction, task: NewTask): Promise<Created> {
    const query = queryOf(transaction)
    await this.database.ready()
    await checkOpen(query, this.database)
    const { id: newId, key, caller, limit } = task
    await acquire(query, this.database.schema, {
      id: newId, key, caller: limit === undefined ? undefined : caller,
    })
    const created = await this.creates.create(task, query)
    // Not in the transaction: PostgreSQL commits those with a notice one at a time.
    if (created.outcome === 'created') {
      setTimeout(() => { this.noteCreated(created.task) }, COMMIT_MS).unref()
    }
    return created
  }

  private noteCreated({ id, startAt, createdAt, pool }: StoredTask): void {
    this.notices.notify(id)
    if (startAt === undefined) this.worker.noteWaiting(pool)
    else this.worker.noteDelayed(pool, startAt - createdAt)
  }

  private noteChange(
    task: StoredTask, change: TaskChange, expected: Expected, bytes: number,
  ): void {
    const { status, isHidden, delayMs = 0, callbackMs } = change
    if (isHidden !== true) this.notices.notify(task.id)
    if (status !== undefined) {
      const isOwn = 'run' in expected
      this.worker.leases.note(task, isOwn)
      if (!isOwn && task.run > 0) this.notices.send(STOP)
      if (status === 'queued') this.worker.noteDelayed(task.pool, delayMs)
    }
    if (callbackMs !== undefined && callbackMs !== null) this.worker.noteCallback(callbackMs)
    if (isFinalStatus(task.status) && task.caller !== undefined) {
      this.shares.count(task.caller, bytes, change.files)
    }
  }
}
