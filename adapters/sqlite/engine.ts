import { randomBytes } from 'node:crypto'
import type {
  CreateOptions, PoolCounts, TaskEngine, TaskQuery, WorkHandlers, WorkOptions,
} from '../../src/engine/engine.js'
import {
  createdTask, nameFault, type Changed, type Created, type Expected, type NewTask,
  type StoredTask, type TaskChange, type TaskRef,
} from '../../src/engine/task.js'
import { Json } from '../../src/runtime/json.js'
import { newId } from '../../src/runtime/random-id.js'
import type { ShareLimits } from '../../src/stores/share-limits.js'
import type { Database } from './database.js'
import { ForeignWatches } from './foreign-watches.js'
import { readCounts, readPage } from './pages.js'
import {
  applyChange, holds, isActive, isFinal, isQueued, isWaiting, newRow, toTask, type TaskRow,
} from './rows.js'
import { Tasks } from './tasks.js'
import { Worker } from './worker.js'

/** Size of the input of a probe, in bytes: it needs several pages, as a task may. */
const PROBE_BYTES = 12_000

/**
 * Task engine in a file of SQLite, made by `sqlite()`: one row for each task. Several processes of one
 * machine share the file.
 */
export class SqliteTaskEngine implements TaskEngine {
  readonly shared = true
  readonly durable = true
  readonly hasTransactions = false
  private readonly tasks: Tasks
  private readonly worker: Worker
  private readonly watches: ForeignWatches

  /** @internal */
  constructor(
    private readonly database: Database,
    { limits, leaseMs }: { readonly limits: ShareLimits, readonly leaseMs: number },
  ) {
    this.tasks = new Tasks(database, limits)
    this.worker = new Worker(database, this.tasks, leaseMs)
    this.watches = new ForeignWatches(database, this.tasks.watches, (id) => this.tasks.stateOf(id))
  }

  create(task: NewTask, { transaction }: CreateOptions = {}): Promise<Created> {
    if (transaction !== undefined) {
      return Promise.reject(new TypeError('transaction needs the engine of longhaul/postgres'))
    }
    const fault = nameFault(task)
    return fault ? Promise.reject(fault) : this.database.write('create', () => this.createNow(task))
  }

  read(id: string): Promise<StoredTask | undefined> {
    return this.database.read('read', () => toOptional(this.tasks.live(id)))
  }

  readByKey(key: string): Promise<StoredTask | undefined> {
    return this.database.read('read', () => toOptional(this.tasks.liveByKey(key)))
  }

  change(ref: TaskRef, expected: Expected, change: TaskChange): Promise<Changed> {
    return this.database.write('change', () => this.changeNow(ref, expected, change))
  }

  delete(ref: TaskRef, version: number): Promise<StoredTask | undefined> {
    const { id, birth } = ref
    return this.database.write('delete', () => {
      const row = this.tasks.live(id)
      if (row?.birth !== birth) return undefined
      if (Number(row.version) !== version || !isFinal(row)) return toTask(row)
      this.tasks.remove(row)
      this.worker.noteDue(0)
      return undefined
    })
  }

  /** @throws {Error} `work` was called before. */
  work(options: WorkOptions, handlers: WorkHandlers): void {
    this.worker.start(options, handlers)
  }

  watch(id: string, listener: () => void): Promise<() => void> {
    return this.watches.add(id, listener)
  }

  list(query: TaskQuery): Promise<readonly StoredTask[]> {
    const { database } = this
    return database.read('list', () => database.inSnapshot(() => readPage(database, query)))
  }

  counts(pool: string): Promise<PoolCounts> {
    return this.database.read('counts', () => readCounts(this.database, pool))
  }

  setPaused(pool: string, isPaused: boolean): Promise<void> {
    return this.database.write('change', () => { this.worker.setPaused(pool, isPaused) })
  }

  pausedPools(): Promise<readonly string[]> {
    return this.database.read('read', () => this.tasks.pausedPools())
  }

  now(): Promise<number> {
    return this.database.read('now', () => this.database.now)
  }

  /** Writes a task, and removes it in the same transaction. */
  probe(): Promise<void> {
    return this.database.write('probe', () => {
      const input = Json.of(randomBytes(PROBE_BYTES).toString('base64url'))
      const task = { id: newId(), birth: newId(), name: '', pool: '', priority: 0, details: {}, keepMs: 0 }
      const row = newRow({ ...task, input }, 0, undefined)
      this.tasks.insert(row, input.text)
      this.tasks.remove(row)
    })
  }

  async close({ drainMs }: { readonly drainMs: number }): Promise<void> {
    await this.worker.close(drainMs)
    this.watches.close()
  }

  private createNow(task: NewTask): Created {
    const { tasks, database: { now } } = this
    const { caller = '', limit, start } = task
    const at = start === undefined ? now : 'at' in start ? start.at : now + start.delayMs
    const hasRoom = tasks.takeRoom(caller, limit)
    const insert = (): Created | undefined => hasRoom ? this.insert(task, at) : undefined
    // The second insert is made if the task that had a name has expired: `meet` has removed it.
    return insert() ?? this.meet(task, at) ?? insert() ?? { outcome: 'caller_full' }
  }

  /** Inserts a new task. Returns `undefined` if a task has its id, key or business key. */
  private insert(task: NewTask, at: number): Created | undefined {
    const { tasks, worker, database: { now } } = this
    const startAt = at > now ? at : undefined
    const row = newRow(task, now, startAt)
    const created: Created = {
      outcome: 'created', task: createdTask(task, now, startAt, row.expiresAt),
    }
    const { text } = task.input
    if (at <= now && worker.canBegin(row.pool)) return worker.begin(row, text) ? created : undefined
    if (at <= now) row.turn = tasks.turnOf(row)
    if (!tasks.insert(row, text)) return undefined
    if (at <= now) worker.noteReady()
    else worker.noteDue(at - now)
    return created
  }

  /**
   * Finds the task that has the id, key or business key of a new task, and returns the outcome.
   * `undefined`: there is none.
   */
  private meet(task: NewTask, at: number): Created | undefined {
    const named = this.tasks.named(task)
    const { id, key, birth, unique } = task
    const other = named.find((row) => row.id === id)
      ?? (key === undefined ? undefined : named.find((row) => row.key === key))
    if (other) return { outcome: other.birth === birth ? 'created' : 'exists', task: toTask(other) }
    const holder = unique && named.find((row) => row.uniqueKey === unique.key)
    return holder && this.meetHolder(holder, task, at)
  }

  /**
   * Handles a new task with the business key of an unfinished task: returns that task or replaces
   * its work.
   */
  private meetHolder(before: TaskRow, task: NewTask, at: number): Created {
    const { tasks, database: { now } } = this
    if (task.unique?.ifExists === 'return' || Number(before.run) > 0) {
      return { outcome: 'exists', task: toTask(before) }
    }
    const { pool, priority, startAt, dueAt, expiresAt, details, hasFiles } = newRow(
      task, now, at > now ? at : undefined,
    )
    const row: TaskRow = {
      ...before, pool, priority, startAt, dueAt, expiresAt, details, turn: null, held: null,
      hasFiles: Math.max(hasFiles, Number(before.hasFiles)), version: Number(before.version) + 1,
    }
    const isSame = pool === before.pool && priority === Number(before.priority)
    if (at <= now && isSame && isWaiting(before)) {
      // The task keeps its place.
      Object.assign(row, { turn: before.turn, held: before.held, dueAt: before.dueAt })
    } else if (at <= now) {
      row.turn = tasks.turnOf(row)
    }
    tasks.replace(before, row, task.input.text)
    if (at <= now) this.worker.noteReady()
    else this.worker.noteDue(at - now)
    return { outcome: 'replaced', task: toTask(row) }
  }

  private changeNow({ id, birth }: TaskRef, expected: Expected, change: TaskChange): Changed {
    const { tasks, worker, database: { now } } = this
    const before = tasks.current(id)
    if (before?.birth !== birth) return { outcome: 'conflict', task: undefined }
    if (!holds(before, expected, change)) return { outcome: 'conflict', task: toTask(before) }
    const { status, delayMs = 0, callbackMs, limit } = change
    if (status === 'queued' && isFinal(before) && !tasks.takeRoom(before.caller, limit)) {
      return { outcome: 'caller_full' }
    }
    const row = { ...before }
    applyChange(row, expected, change, now)
    const hasMoved = row.pool !== before.pool
    if (isActive(before) && (status !== undefined || hasMoved)) tasks.onRunEnd(before)
    const isReady = status === undefined ? isWaiting(row) && hasMoved : isQueued(row) && delayMs <= 0
    if (isReady) {
      // A task that changes its pool waits at the end of the other one.
      row.turn = tasks.turnOf(row)
      row.held = null
    }
    tasks.updateChanged(before, row, change)
    const task = toTask(row)
    if (status !== undefined) worker.noteStatus(task, 'lease' in expected)
    if (isReady) worker.noteReady()
    else if (status !== undefined && isQueued(row)) worker.noteDue(delayMs)
    if (typeof callbackMs === 'number') worker.noteDue(callbackMs)
    return { outcome: 'changed', task }
  }
}

function toOptional(row: TaskRow | undefined): StoredTask | undefined {
  return row && toTask(row)
}
