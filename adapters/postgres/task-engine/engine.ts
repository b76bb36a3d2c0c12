import { randomBytes } from 'node:crypto'
import {
  hasWorker, type CreateOptions, type PoolCounts, type TaskEngine, type TaskQuery, type Transaction,
  type WorkHandlers, type WorkOptions,
} from '../../../src/engine/engine.js'
import {
  isFinalStatus, isVisibleChange, type Changed, type Created, type Expected, type NewTask,
  type StoredTask, type TaskChange, type TaskRef,
} from '../../../src/engine/task.js'
import { newId } from '../../../src/runtime/random-id.js'
import { setTimeout } from '../../../src/runtime/timers.js'
import { observed, reasonOf } from '../../../src/stores/calls.js'
import type { ShareLimits } from '../../../src/stores/share-limits.js'
import { isStoreUnavailable, StoreUnavailableError } from '../../../src/stores/store.js'
import type { Database } from '../database.js'
import { BATCH, expiredRows, shareCheck, Sweeper, type ShareCheck } from '../expiry.js'
import { ChangeNotices } from '../notices.js'
import { checkText, isConnectionError } from '../sql.js'
import { Changes } from './changes.js'
import { Creates } from './creates.js'
import { TaskReads } from './reads.js'
import { CLOCK, keptBytes, NOW, SAME_NOW } from './rows.js'
import { enter, queryOf } from './transaction.js'
import { DUE, STOP, Worker } from './worker.js'

/**
 * Time after which a transaction has probably committed, in milliseconds. If the transaction
 * commits later, the next look finds its task.
 */
const COMMIT_MS = 100
/** Size of the task of a probe, in bytes: on a full disk there is rarely space for it. */
const PROBE_BYTES = 1200
/** Memory of a row beside its strings, in bytes. */
const OVERHEAD = 500

interface Evicted {
  readonly id: string
  readonly has_files: boolean
}

/**
 * Task engine on PostgreSQL 13 or later, made by `postgres()`: one row for each task. A
 * task takes three statements: one creates it, one begins its run, and one ends it. Calls of one turn
 * of the event loop share statements.
 */
export class PostgresTaskEngine implements TaskEngine {
  readonly shared = true
  readonly durable = true
  readonly hasTransactions = true
  private readonly reads: TaskReads
  private readonly creates: Creates
  private readonly changes: Changes
  private readonly checkShare: ShareCheck
  private readonly checkFiles: ShareCheck
  private readonly notices: ChangeNotices
  private worker: Worker | undefined
  private readonly sweeper: Sweeper

  /** @internal */
  constructor(
    private readonly database: Database,
    private readonly settings: { readonly limits: ShareLimits, readonly leaseMs: number },
  ) {
    const { schema, background } = database
    this.reads = new TaskReads(schema, database.repeated)
    this.creates = new Creates(database, this.reads)
    this.changes = new Changes(database, this.reads, (...made) => { this.noteChange(...made) })
    this.notices = new ChangeNotices(database.channel, 'task:')
    const checks = (bytes: string, condition: string): ShareCheck => (
      shareCheck<Evicted>(background, surplusSql(schema, bytes, condition), (rows) => {
        for (const { id } of rows) this.notices.notify(id)
        if (rows.some((row) => row.has_files)) this.worker?.work.lookIn(0)
      })
    )
    this.checkShare = checks(`${keptBytes('task')} + ${String(OVERHEAD)}`, 'true')
    this.checkFiles = checks('file_bytes', 'file_bytes > 0')
    const isExpired = `NOT has_files AND sweep_at <= (SELECT ${NOW})`
    const isUnused = 'changed_at < now() - interval \'1 hour\''
    this.sweeper = new Sweeper([
      expiredRows(background, `${schema}.task_rows`, 'id', isExpired),
      expiredRows(background, `${schema}.task_callers`, 'caller', isUnused),
    ])
  }

  async create(task: NewTask, { transaction }: CreateOptions = {}): Promise<Created> {
    if (transaction !== undefined) return this.createWithin(transaction, task)
    const created = await observed('create', () => this.creates.create(task))
    this.noteCreated(created)
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
    if (this.worker) throw hasWorker('postgres')
    const { database, notices, settings: { leaseMs } } = this
    this.worker = new Worker({ database, notices, leaseMs }, options, handlers)
  }

  async watch(id: string, listener: () => void): Promise<() => void> {
    checkText(id)
    return observed('watch', () => this.notices.watch(id, listener))
  }

  transactionError(error: unknown): unknown {
    if (isStoreUnavailable(error) || !isConnectionError(error)) return error
    return new StoreUnavailableError(
      `The transaction has lost a connection, or has not got one: ${reasonOf(error)}`, { cause: error },
    )
  }

  async list(query: TaskQuery): Promise<readonly StoredTask[]> {
    return observed('list', () => this.reads.page(query))
  }

  async counts(pool: string): Promise<PoolCounts> {
    return observed('counts', () => this.reads.counts(pool))
  }

  async setPaused(pool: string, isPaused: boolean): Promise<void> {
    checkText(pool)
    const text = pauseSql(this.database.schema, isPaused)
    await observed('change', () => this.database.repeated(text, [pool]))
    // Each worker looks which pools are paused.
    this.notices.notify(DUE)
  }

  async pausedPools(): Promise<readonly string[]> {
    return observed('read', () => this.reads.pausedPools())
  }

  async now(): Promise<number> {
    return observed('now', () => this.reads.now())
  }

  /** Writes a task that has expired already, which a sweep removes. */
  async probe(): Promise<void> {
    const values = [newId(), randomBytes(PROBE_BYTES).toString('base64url')]
    await observed('probe', () => this.database.query(probeSql(this.database.schema), values))
  }

  async close({ drainMs }: { readonly drainMs: number }): Promise<void> {
    await this.worker?.work.close(drainMs)
    this.sweeper.close()
    await this.notices.close()
  }

  private async createWithin(transaction: Transaction, task: NewTask): Promise<Created> {
    const query = queryOf(transaction)
    await this.database.ready()
    const { id, key, caller, limit, unique } = task
    await enter(query, this.database, [id, key, limit && caller, unique?.key])
    const created = await this.creates.create(task, query)
    // Not in the transaction, because PostgreSQL commits transactions with a notice one at a time.
    setTimeout(() => { this.noteCreated(created) }, COMMIT_MS).unref()
    return created
  }

  private noteCreated(created: Created): void {
    if (created.outcome !== 'created' && created.outcome !== 'replaced') return
    const { id, startAt, createdAt, pool } = created.task
    this.notices.notify(id)
    // A later look finds a replaced task whose new start is late.
    if (startAt !== undefined) this.noteDue(startAt - createdAt, this.worker?.hasPlace(pool))
    else if (this.worker?.take(pool) !== true) this.notices.send(DUE + pool)
  }

  /** @param hasPlace - true if this process can begin what is due */
  private noteDue(delayMs: number, hasPlace = false): void {
    this.worker?.work.lookIn(delayMs)
    if (delayMs <= 0 && !hasPlace) this.notices.send(DUE)
  }

  private noteChange(
    task: StoredTask, change: TaskChange, expected: Expected, bytes: number,
  ): void {
    const { status, delayMs = 0, callbackMs, files } = change
    if (isVisibleChange(change)) this.notices.notify(task.id)
    if (status !== undefined) {
      const isOwn = 'lease' in expected
      this.worker?.work.leases.note(task, isOwn)
      if (isOwn) this.worker?.noteEnd(task)
      if (!isOwn && task.run > 0) this.notices.send(STOP)
      if (!isFinalStatus(status)) this.noteDue(delayMs, this.worker?.hasPlace(task.pool))
    }
    if (typeof callbackMs === 'number') {
      this.noteDue(callbackMs, (this.worker?.work.freeCallbacks ?? 0) > 0)
    }
    if (!isFinalStatus(task.status) || task.caller === undefined) return
    this.checkShare(task.caller, bytes + OVERHEAD, this.settings.limits)
    if (!files) return
    this.checkFiles(task.caller, files.bytes, { maxEntries: Number.MAX_SAFE_INTEGER, maxBytes: files.max })
  }
}

/** Returns a statement that pauses a pool (`$1`), or ends its pause. */
function pauseSql(schema: string, isPaused: boolean): string {
  const pools = `${schema}.task_pools`
  return isPaused ? `INSERT INTO ${pools} (pool, is_paused) VALUES ($1, true)
ON CONFLICT (pool) DO UPDATE SET is_paused = true`
    : `UPDATE ${pools} SET is_paused = false WHERE pool = $1 AND is_paused`
}

/** Returns a statement that writes an expired task with an id (`$1`) and an input (`$2`). */
function probeSql(schema: string): string {
  return `WITH ${CLOCK} INSERT INTO ${schema}.task_rows (id, birth, owner, caller, name, pool, priority,
  status, created_at, expires_at, sweep_at, due_at, has_files, details, input)
SELECT $1, $1, '', '', '', '', 0, 2, now, now, now, now, false, '{}', $2 FROM clock`
}

/**
 * Returns a statement that lets the oldest final tasks of a caller ($1) expire that are beyond a
 * number ($2) or a total ($3), and never the newest.
 */
function surplusSql(schema: string, bytes: string, condition: string): string {
  const rows = `${schema}.task_rows`
  return `WITH ${CLOCK}, surplus AS MATERIALIZED (
  SELECT id FROM (
    SELECT id, row_number() OVER newest AS place, sum(${bytes}) OVER newest AS total
    FROM ${rows} AS task
    WHERE caller = $1 AND caller <> '' AND status >= 2 AND expires_at > ${SAME_NOW}
      AND ${condition}
    WINDOW newest AS (ORDER BY finished_at DESC, created_at DESC, id DESC)
  ) AS ranked
  WHERE place > 1 AND (place > $2::bigint OR total > $3::float8)
  ORDER BY place DESC LIMIT ${String(BATCH)}
)
UPDATE ${rows} SET expires_at = ${SAME_NOW}, sweep_at = ${SAME_NOW} WHERE id = ANY(ARRAY(
  SELECT id FROM ${rows} WHERE id = ANY(ARRAY(SELECT id FROM surplus)) AND status >= 2
  ORDER BY id FOR UPDATE SKIP LOCKED
)) RETURNING id, has_files`
}
