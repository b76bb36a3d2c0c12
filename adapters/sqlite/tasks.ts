import type { CallerLimit, NewTask, TaskChange } from '../../src/engine/task.js'
import { WatchList } from '../../src/runtime/notices.js'
import type { ShareLimits } from '../../src/stores/share-limits.js'
import type { Database } from './database.js'
import {
  INSERT, insertedValues, isActive, isFinal, toTask, updateOf, type TaskRow,
} from './rows.js'
import { MAX_REMOVED, Shares } from './shares.js'

/** Maximum length of an input that stands in the row of its task, in characters. */
const MAX_SHORT = 1000
/** Maximum number of groups of callers in memory. */
const MAX_GROUPS = 1000
/** Size of a row beside its strings, in bytes. */
const OVERHEAD = 500

/** Input and checkpoint of a task, which are read for runs only. */
export interface Texts {
  readonly input: string
  readonly checkpoint: string | null
}

/**
 * The rows of tasks, with everything that depends on them: limits, shares and removals. All methods run
 * in a transaction, except those that only read.
 */
export class Tasks {
  readonly watches = new WatchList()
  /** Called in the transaction in which an active run ends. Its task has no turn yet. */
  onRunEnd: (row: TaskRow) => void = () => undefined
  /** Rows of the runs of this process, as they are in the file: their next change reads nothing. */
  private readonly own = new Map<string, TaskRow>()
  /** Numbers of unfinished tasks by group of a caller. Ends are not counted, so there may be fewer. */
  private readonly groups = new Map<string, number>()
  private readonly shares: Shares
  /** Outcomes of `isIdle` in this transaction, by pool. */
  private readonly idle = new Map<string, boolean>()

  constructor(private readonly database: Database, private readonly limits: ShareLimits) {
    database.addExpirer((limit) => this.expire(limit))
    this.shares = new Shares(database)
    database.onForget(() => {
      this.own.clear()
      this.groups.clear()
    })
  }

  /** Returns a task that has not expired. */
  live(id: string): TaskRow | undefined {
    return this.database.first(`${SELECT} WHERE id = ? AND expiresAt > ?`, id, this.database.now)
  }

  liveByKey(key: string): TaskRow | undefined {
    return this.database.first(`${SELECT} WHERE key = ? AND expiresAt > ?`, key, this.database.now)
  }

  /** Returns the same as `live`, from memory if possible. Call it in a transaction only. */
  current(id: string): TaskRow | undefined {
    const row = this.own.get(id)
    return row !== undefined && row.expiresAt > this.database.now ? row : this.live(id)
  }

  /**
   * Returns the tasks that have the id, key or business key of a new task. Removes expired ones.
   */
  named({ id, key, unique }: NewTask): TaskRow[] {
    const { database } = this
    let [sql, values] = [`${SELECT} WHERE id = ?`, [id]]
    if (key !== undefined) [sql, values] = [`${sql} OR key = ?`, [...values, key]]
    if (unique !== undefined) [sql, values] = [`${sql} OR uniqueKey = ?`, [...values, unique.key]]
    return database.all<TaskRow>(sql, ...values).filter((row) => {
      const isLive = row.expiresAt > database.now
      if (!isLive) this.remove(row)
      return isLive
    })
  }

  /** Returns whether a pool is not paused, and nothing in it is due or waits. */
  isIdle(pool: string): boolean {
    const { database, idle } = this
    let isIdle = idle.get(pool)
    if (isIdle === undefined) {
      isIdle = database.first(BUSY, pool, pool, pool, database.now) === undefined
      const forget = (): void => { idle.clear() }
      database.after(forget, forget)
      idle.set(pool, isIdle)
    }
    return isIdle
  }

  /** Returns the first ready tasks of a pool, unless it is paused. */
  ready(pool: string, limit: number): TaskRow[] {
    return this.database.all(READY, pool, this.database.now, pool, limit)
  }

  setPaused(pool: string, isPaused: boolean): void {
    this.idle.delete(pool)
    this.database.run(isPaused ? PAUSE : RESUME, pool)
  }

  /** Returns the names of the paused pools, by code unit. */
  pausedPools(): string[] {
    const rows = this.database.all<{ readonly pool: string }>('SELECT pool FROM longhaul_pauses')
    return rows.map(({ pool }) => pool).sort()
  }

  /** Returns a string that changes whenever clients can see a change of a task. */
  stateOf(id: string): string | undefined {
    const row = this.database.first<Pick<TaskRow, 'birth' | 'version'>>(
      'SELECT birth, version FROM longhaul_tasks WHERE id = ? AND expiresAt > ?', id, this.database.now,
    )
    return row && `${row.birth} ${String(row.version)}`
  }

  texts(row: TaskRow): Texts {
    if (row.input !== null) return { input: row.input, checkpoint: null }
    return this.database.first<Texts>(
      'SELECT input, checkpoint FROM longhaul_texts WHERE task = ?', row.rowid,
    ) ?? { input: '', checkpoint: null }
  }

  /** Takes room for one more unfinished task of a caller. Returns `false` if there is none. */
  takeRoom(caller: string, limit: CallerLimit | undefined): boolean {
    if (caller === '' || limit === undefined) return true
    const { database, groups } = this
    const { group, max } = limit
    const key = `${group}\0${caller}`
    let count = groups.get(key) ?? Infinity
    if (count >= max) {
      const { now } = database
      const row = database.first<{ readonly count: number }>(
        UNFINISHED, caller, group, now, caller, group, now, max,
      )
      count = Number(row?.count)
    }
    if (groups.size >= MAX_GROUPS) groups.clear()
    groups.set(key, count + 1)
    return count < max
  }

  /** Returns `false` and inserts nothing if a task has one of the names of this one. */
  insert(row: TaskRow, input: string): boolean {
    const { database } = this
    row.input = input.length > MAX_SHORT ? null : input
    const { changes, lastInsertRowid } = database.run(INSERT, ...insertedValues(row))
    if (Number(changes) === 0) return false
    row.rowid = Number(lastInsertRowid)
    if (row.input === null) database.run(ADD_TEXTS, row.rowid, input, null)
    this.notify(row.id)
    return true
  }

  /** Keeps the row of a run that this process has begun. */
  keep(row: TaskRow): void {
    this.own.set(row.id, row)
  }

  /** Writes a row that was not final before, or whose share does not change. */
  update(before: TaskRow, row: TaskRow): void {
    const update = updateOf(before, row)
    if (update === undefined) return
    this.database.run(update.sql, ...update.values)
    if (this.own.size === 0 || !this.own.has(row.id)) return
    if (isActive(row)) this.own.set(row.id, row)
    else this.own.delete(row.id)
  }

  /** Gives a task that has never begun other work. */
  replace(before: TaskRow, row: TaskRow, input: string): void {
    const { database } = this
    if (row.input === null) database.run('DELETE FROM longhaul_texts WHERE task = ?', row.rowid)
    row.input = input.length > MAX_SHORT ? null : input
    if (row.input === null) database.run(ADD_TEXTS, row.rowid, input, null)
    this.update(before, row)
    this.notify(row.id)
  }

  /** Writes a row after a change. A caller above its share then loses its oldest tasks. */
  updateChanged(before: TaskRow, row: TaskRow, change: TaskChange): void {
    const { database } = this
    if (isFinal(before)) this.count(before, -1)
    if (change.status === 'completed') {
      if (row.input === null) database.run('DELETE FROM longhaul_texts WHERE task = ?', row.rowid)
      row.input = null
    } else if (typeof change.checkpoint === 'string' && row.input !== null) {
      database.run(ADD_TEXTS, row.rowid, row.input, change.checkpoint)
      row.input = null
    } else if (change.checkpoint !== undefined && row.input === null) {
      const sql = 'UPDATE longhaul_texts SET checkpoint = ? WHERE task = ?'
      database.run(sql, change.checkpoint, row.rowid)
    }
    if (isFinal(row)) row.bytes = this.measure(row)
    this.update(before, row)
    if (isFinal(row)) this.takeSpace(row, change)
    if (row.version !== before.version) this.notify(row.id)
  }

  /** Deletes a row. If it has files, they are removed later. */
  remove(row: TaskRow): void {
    const { database } = this
    if (isFinal(row)) this.count(row, -1)
    else if (isActive(row)) this.onRunEnd(row)
    this.own.delete(row.id)
    database.run('DELETE FROM longhaul_tasks WHERE rowid = ?', row.rowid)
    if (row.input === null) database.run('DELETE FROM longhaul_texts WHERE task = ?', row.rowid)
    if (Number(row.hasFiles) === 1) {
      database.run(
        'INSERT OR REPLACE INTO longhaul_removals (row, at, task) VALUES (?, ?, ?)',
        `${row.id}~${row.birth}`, database.now, JSON.stringify(toTask(row)),
      )
    }
    this.notify(row.id)
  }

  /** Removes expired tasks. Returns `true` if more may be left. */
  expire(limit: number): boolean {
    const { database } = this
    const rows = database.all<TaskRow>(EXPIRED, database.now, limit)
    for (const row of rows) this.remove(row)
    for (const row of database.all<TaskRow>(EXPIRED_RUNS, database.now)) this.remove(row)
    return rows.length === limit
  }

  /**
   * Returns the turn of a task that begins to wait. If its caller has nothing waiting, it gets the turn
   * of the task that comes next; each further task of the caller one turn later. So callers take turns.
   */
  turnOf({ pool, priority, caller }: Pick<TaskRow, 'pool' | 'priority' | 'caller'>): number {
    const { database } = this
    this.idle.set(pool, false)
    const waiting = 'FROM longhaul_tasks WHERE turn IS NOT NULL AND pool = ? AND priority = ?'
    const first = database.first<{ readonly turn: number }>(
      `SELECT turn ${waiting} ORDER BY turn LIMIT 1`, pool, priority,
    )
    if (first === undefined) return 0
    const last = database.first<{ readonly turn: number }>(
      `SELECT turn ${waiting} AND caller = ? ORDER BY turn DESC LIMIT 1`, pool, priority, caller,
    )
    return Math.max(Number(first.turn), last === undefined ? 0 : Number(last.turn) + 1)
  }

  notify(id: string): void {
    this.database.after(() => { this.watches.notify(id) })
  }

  private measure(row: TaskRow): number {
    const isCompleted = Number(row.status) === 2
    const { input, checkpoint } = isCompleted ? { input: null, checkpoint: null } : this.texts(row)
    return OVERHEAD + [row.details, row.result, input, checkpoint]
      .reduce((sum, text) => sum + Buffer.byteLength(text ?? ''), 0)
  }

  private count({ caller, bytes, fileBytes }: TaskRow, by: 1 | -1): void {
    if (caller === '') return
    this.shares.add('t', caller, { count: by, bytes: by * Number(bytes) })
    if (Number(fileBytes) === 0) return
    this.shares.add('f', caller, { count: by, bytes: by * Number(fileBytes) })
  }

  /** Counts a final task for its caller. A caller above its share loses its oldest other tasks. */
  private takeSpace(row: TaskRow, { files }: TaskChange): void {
    const { limits: { maxEntries, maxBytes } } = this
    const { caller } = row
    if (caller === '') return
    this.count(row, 1)
    const tasks = this.shares.of('t', caller)
    for (let n = 0; n < MAX_REMOVED; n++) {
      if (tasks.count <= maxEntries && tasks.bytes <= maxBytes) break
      if (!this.removeOldest(row, false)) break
    }
    while (files && this.shares.of('f', caller).bytes > files.max) {
      if (!this.removeOldest(row, true)) break
    }
  }

  /** Removes the oldest final task of the caller of a task, except this task. */
  private removeOldest({ caller, rowid }: TaskRow, needsFiles: boolean): boolean {
    const [oldest] = this.database.all<TaskRow>(
      `${SELECT} WHERE caller = ? AND caller <> '' AND status >= 2 AND rowid <> ?
${needsFiles ? 'AND fileBytes > 0' : ''} ORDER BY finishedAt, rowid LIMIT 1`, caller, rowid,
    )
    if (oldest !== undefined) this.remove(oldest)
    return oldest !== undefined
  }
}

export const SELECT = 'SELECT * FROM longhaul_tasks'
const UNFINISHED = `SELECT count(*) AS count FROM (
SELECT 1 FROM longhaul_tasks WHERE caller = ? AND limitGroup = ? AND status = 0 AND expiresAt > ?
UNION ALL SELECT 1 FROM longhaul_tasks INDEXED BY longhaul_tasks_lease
WHERE status = 1 AND caller = ? AND limitGroup = ? AND expiresAt > ? LIMIT ?)`
const EXPIRED = `${SELECT} WHERE status <> 1 AND expiresAt <= ? ORDER BY expiresAt LIMIT ?`
const EXPIRED_RUNS = `${SELECT} INDEXED BY longhaul_tasks_lease WHERE status = 1 AND expiresAt <= ?`
const PAUSE = 'INSERT OR IGNORE INTO longhaul_pauses (pool) VALUES (?)'
const RESUME = 'DELETE FROM longhaul_pauses WHERE pool = ?'
const ADD_TEXTS = 'INSERT INTO longhaul_texts (task, input, checkpoint) VALUES (?, ?, ?)'
const BUSY = `SELECT 1 WHERE EXISTS (SELECT 1 FROM longhaul_pauses WHERE pool = ?)
OR EXISTS (SELECT 1 FROM longhaul_tasks WHERE turn IS NOT NULL AND pool = ?)
OR EXISTS (SELECT 1 FROM longhaul_tasks
  WHERE pool = ? AND turn IS NULL AND held IS NULL AND status = 0 AND dueAt <= ?)`
const READY = `${SELECT} WHERE turn IS NOT NULL AND pool = ? AND expiresAt > ?
AND NOT EXISTS (SELECT 1 FROM longhaul_pauses WHERE pool = ?)
ORDER BY priority, turn, dueAt, rowid LIMIT ?`
