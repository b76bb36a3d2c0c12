import type { PoolCounts, RunLimits, TaskQuery } from '../../src/engine/engine.js'
import {
  isFinalStatus, type CallerLimit, type Changed, type Created, type Expected, type FileShare,
  type NewTask,
  type StoredTask, type TaskChange, type TaskRef,
} from '../../src/engine/task.js'
import type { Json } from '../../src/runtime/json.js'

export interface ModelSettings {
  readonly leaseMs: number
  /** What final tasks of one caller may keep. Default: no limit. */
  readonly share?: { readonly tasks: number, readonly bytes: number } | undefined
  /** Maximum number of tasks. Default: no limit. */
  readonly capacity?: number | undefined
}

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] }

/** A task in the model, with what others do not see. */
export interface Row {
  task: StoredTask
  input: Json | undefined
  checkpoint: string | undefined
  /** Group in which the task counts until it is final. */
  group: string | undefined
  dueAt: number
  leaseEndsAt: number
  /** Token of the newest begin. */
  lease: string
  /** Business key. */
  unique: string | undefined
  hasFiles: boolean
  files: FileShare | undefined
  /** Earliest time of the next attempt to remove the files. */
  removeAt: number
}

/** What the model keeps beside the rows of tasks. */
export interface ModelRest {
  readonly gone: readonly Row[]
  readonly paused: readonly string[]
  readonly served: readonly (readonly [string, number])[]
  readonly starts: number
  readonly begins: readonly (readonly [string, number[]])[]
}

/** The rules of tasks as maps and linear scans: slow and obviously right. Every call is atomic. */
export class ModelTasks {
  readonly rows = new Map<string, Row>()
  /** Rows whose tasks are gone, and whose files have to be removed. */
  readonly gone = new Set<Row>()
  readonly watchers = new Map<string, Set<() => void>>()
  /** By pool, priority and caller: number of the last start. */
  private readonly served = new Map<string, number>()
  private starts = 0
  readonly paused = new Set<string>()
  /** Times of all begins, by pool. */
  private readonly begins = new Map<string, number[]>()

  constructor(readonly settings: ModelSettings) {}

  now(): number {
    return Date.now()
  }

  /** Returns the rows of all tasks that have not expired. */
  live(): Row[] {
    const now = this.now()
    for (const [id, row] of this.rows) {
      if (row.task.expiresAt <= now) this.drop(id, row)
    }
    return [...this.rows.values()]
  }

  row(id: string): Row | undefined {
    return this.live().find(({ task }) => task.id === id)
  }

  withKey(key: string | undefined): Row | undefined {
    return key === undefined ? undefined : this.live().find(({ task }) => task.key === key)
  }

  create(task: NewTask): Created {
    const same = this.row(task.id) ?? this.withKey(task.key)
    if (same) {
      const outcome = same.task.birth === task.birth ? 'created' : 'exists'
      return { outcome, task: same.task }
    }
    const other = task.unique && this.live().find(({ unique, task: { status } }) => (
      unique === task.unique?.key && !isFinalStatus(status)
    ))
    if (other) return this.meet(other, task)
    if (this.isOver(task.caller, task.limit)) return { outcome: 'caller_full' }
    if (this.live().length >= (this.settings.capacity ?? Infinity)) return { outcome: 'full' }
    const row = this.newRow(task)
    this.rows.set(task.id, row)
    this.notify(task.id)
    return { outcome: 'created', task: row.task }
  }

  change(ref: TaskRef, expected: Expected, change: TaskChange): Changed {
    const row = this.row(ref.id)
    if (row?.task.birth !== ref.birth) return { outcome: 'conflict', task: undefined }
    if (!this.holds(row.task, expected)) return { outcome: 'conflict', task: row.task }
    if (row.task.status === 'completed' && change.status === 'queued') {
      return { outcome: 'conflict', task: row.task }
    }
    const now = this.now()
    const task: Mutable<StoredTask> = { ...row.task }
    const { status, details, result, delayMs = 0, keepMs, pool, callbackMs, checkpoint } = change
    if (status === 'input_required') {
      task.attempt--
      task.crashes = 0
      row.dueAt = now + delayMs
    } else if (status === 'queued') {
      if (isFinalStatus(task.status)) {
        if (this.isOver(task.caller, change.limit)) return { outcome: 'caller_full' }
        row.group = change.limit?.group
        const none = { startAt: undefined, finishedAt: undefined, result: undefined }
        Object.assign(task, none, { crashes: 0 })
      } else if (change.isGivenBack === true) {
        task.attempt--
      } else {
        task.crashes = 0
      }
      row.dueAt = now + delayMs
    } else if (status !== undefined) {
      task.finishedAt = now
      if (status === 'completed') [row.input, row.checkpoint] = [undefined, undefined]
    }
    task.status = status ?? task.status
    if (isFinalStatus(task.status)) row.unique = undefined
    task.details = details ?? task.details
    task.result = result ?? task.result
    task.pool = pool ?? task.pool
    if (keepMs !== undefined) task.expiresAt = now + keepMs
    if (callbackMs !== undefined) {
      task.callbackAt = callbackMs === null ? undefined : now + callbackMs
      if (!('callbackRun' in expected)) task.callbackRun++
    }
    if (checkpoint !== undefined) {
      row.checkpoint = checkpoint ?? undefined
      task.crashes = 0
    }
    row.hasFiles = change.hasFiles ?? row.hasFiles
    row.files = change.files ?? row.files
    const hidden = ['checkpoint', 'isHidden']
    const isVisible = Object.keys(change).some((name) => !hidden.includes(name))
    if (isVisible && change.isHidden !== true) task.version++
    row.task = task
    this.notify(ref.id)
    this.evict(task.caller)
    this.evictFiles(task.caller, change.files)
    return { outcome: 'changed', task }
  }

  delete(ref: TaskRef, version: number): StoredTask | undefined {
    const row = this.row(ref.id)
    if (row?.task.birth !== ref.birth) return undefined
    if (row.task.version !== version || !isFinalStatus(row.task.status)) return row.task
    this.drop(ref.id, row)
    return undefined
  }

  /** Begins the next run of a pool. Returns its row, and the task as it was before. */
  take(pool: string, limits: RunLimits = {}): { readonly row: Row, readonly before: StoredTask } | undefined {
    const now = this.now()
    if (this.isClosed(pool, limits)) return undefined
    const turn = ({ task }: Row): string => `${task.pool} ${String(task.priority)} ${task.caller ?? ''}`
    const rank = (row: Row): number[] => (
      [row.task.priority, this.served.get(turn(row)) ?? 0, row.dueAt]
    )
    const [row] = this.live()
      .filter(({ task }) => task.pool === pool)
      .filter(({ task }) => !this.isHeld(task, limits))
      .filter(({ task, dueAt, leaseEndsAt }) => (
        (isWaiting(task) && dueAt <= now)
        || (task.status === 'processing' && leaseEndsAt <= now)
      ))
      .sort((a, b) => compareRanks(rank(a), rank(b)))
    if (!row) return undefined
    this.served.set(turn(row), ++this.starts)
    if (limits.startsPer) this.begins.set(pool, [...this.begins.get(pool) ?? [], now])
    return { row, before: this.begin(row) }
  }

  /** Renews the lease of a run. Returns `false` if the run is replaced. */
  renew(task: StoredTask, lease: string): boolean {
    const row = this.row(task.id)
    if (row?.task.birth !== task.birth || !this.holds(row.task, { lease })) return false
    row.leaseEndsAt = this.now() + this.settings.leaseMs
    return true
  }

  /** Begins an attempt at the callback that is due first. */
  takeCallback(): StoredTask | undefined {
    const row = this.live().find(({ task }) => (
      (isFinalStatus(task.status) || task.status === 'input_required')
        && task.callbackAt !== undefined && task.callbackAt <= this.now()
    ))
    if (!row) return undefined
    const { callbackRun } = row.task
    row.task = { ...row.task, callbackRun: callbackRun + 1, callbackAt: this.now() + 60_000 }
    return row.task
  }

  /** Returns the rows whose files have to be removed now. */
  removals(): Row[] {
    this.live()
    return [...this.gone].filter(({ removeAt }) => removeAt <= this.now())
  }

  /** Begins an attempt to remove the files of a task. */
  takeRemoval(): StoredTask | undefined {
    const [row] = this.removals()
    if (row) row.removeAt = this.now() + 1000
    return row?.task
  }

  /** The files of a task are removed. */
  removed({ id, birth }: StoredTask): void {
    for (const row of this.gone) if (row.task.id === id && row.task.birth === birth) this.gone.delete(row)
  }

  list(query: TaskQuery): StoredTask[] {
    const { of, statuses, names, from = 0, to = Infinity, after, limit, omit = [] } = query
    const empty = { details: {}, result: undefined }
    const omitted = Object.fromEntries(omit.map((name) => [name, empty[name]]))
    const sign = query.order === 'oldest' ? 1 : -1
    const listed = (task: StoredTask) => (this.isScheduled(task) ? 'scheduled' : task.status)
    return this.live().map(({ task }) => task)
      .filter((task) => of === 'all' || ('caller' in of ? of.caller === task.caller : of.owner === task.owner))
      .filter((task) => !statuses || statuses.includes(listed(task)))
      .filter(({ name }) => !names || names.includes(name))
      .filter(({ createdAt }) => createdAt >= from && createdAt < to)
      .filter((task) => !after || sign * compare(task, after) > 0)
      .sort((a, b) => sign * compare(a, b))
      .slice(0, limit)
      .map((task) => ({ ...task, ...omitted }))
  }

  counts(pool: string): PoolCounts {
    const now = this.now()
    const rows = this.live().filter(({ task }) => task.pool === pool)
    const queued = rows.filter(({ task }) => isWaiting(task))
    const due = queued.map(({ dueAt }) => dueAt).filter((dueAt) => dueAt <= now)
    return {
      running: rows.filter(({ task }) => task.status === 'processing').length,
      waiting: due.length,
      delayed: queued.length - due.length,
      ...due.length > 0 && { oldestWaitingMs: now - Math.min(...due) },
    }
  }

  /** Returns whether an expectation holds. */
  holds(task: StoredTask, expected: Expected): boolean {
    if ('version' in expected) return task.version === expected.version
    if ('lease' in expected) {
      return task.status === 'processing' && this.rows.get(task.id)?.lease === expected.lease
    }
    return isFinalStatus(task.status) && task.callbackRun === expected.callbackRun
  }

  /** Returns whether a caller has reached a limit. */
  isOver(caller: string | undefined, limit: CallerLimit | undefined): boolean {
    if (caller === undefined || limit === undefined) return false
    return this.live().filter((row) => this.isCounted(row, caller, limit.group)).length >= limit.max
  }

  /** Returns whether a task counts for a caller in a group. */
  isCounted({ task, group: own }: Row, caller: string, group: string): boolean {
    return task.caller === caller && own === group && !isFinalStatus(task.status)
  }

  /** Removes the oldest final tasks of a caller that is over its share. */
  evict(caller: string | undefined): void {
    const { share } = this.settings
    if (!share || caller === undefined) return
    const final = this.live().filter(({ task }) => task.caller === caller && isFinalStatus(task.status))
    final.sort((a, b) => (a.task.finishedAt ?? 0) - (b.task.finishedAt ?? 0))
    const bytes = (): number => final.reduce((sum, row) => sum + bytesOf(row), 0)
    while (final.length > share.tasks || bytes() > share.bytes) {
      const row = final.shift() as Row
      this.drop(row.task.id, row)
    }
  }

  /** Removes the oldest tasks with files above the share, but not the newest. */
  evictFiles(caller: string | undefined, files: FileShare | undefined): void {
    if (files === undefined || caller === undefined) return
    const final = this.live()
      .filter(({ task }) => task.caller === caller && isFinalStatus(task.status))
      .filter((row) => (row.files?.bytes ?? 0) > 0)
    final.sort((a, b) => (a.task.finishedAt ?? 0) - (b.task.finishedAt ?? 0))
    const bytes = (): number => final.reduce((sum, row) => sum + (row.files?.bytes ?? 0), 0)
    while (final.length > 1 && bytes() > files.max) {
      const row = final.shift() as Row
      this.drop(row.task.id, row)
    }
  }

  notify(id: string): void {
    for (const listener of this.watchers.get(id) ?? []) {
      setImmediate(() => { try { listener() } catch { /* It harms nobody. */ } })
    }
  }

  /** Returns everything beside the rows as plain JSON. */
  rest(): ModelRest {
    return {
      gone: [...this.gone], paused: [...this.paused], served: [...this.served], starts: this.starts,
      begins: [...this.begins],
    }
  }

  restore({ gone, paused, served, starts, begins }: ModelRest): void {
    for (const row of gone) this.gone.add(row)
    for (const pool of paused) this.paused.add(pool)
    for (const [turn, start] of served) this.served.set(turn, start)
    for (const [pool, times] of begins) this.begins.set(pool, times)
    this.starts = starts
  }

  /** Copies everything. The result puts it back. */
  snapshot(): () => Promise<void> {
    const rows = [...this.rows].map(([id, row]) => [id, { ...row }] as const)
    const gone = [...this.gone]
    return async () => {
      this.rows.clear()
      for (const [id, row] of rows) this.rows.set(id, { ...row })
      this.gone.clear()
      for (const row of gone) this.gone.add(row)
    }
  }

  /** Returns whether nothing may begin in a pool now. */
  private isClosed(pool: string, { maxRunning = Infinity, startsPer }: RunLimits): boolean {
    if (this.paused.has(pool) || this.running((task) => task.pool === pool) >= maxRunning) return true
    if (startsPer === undefined) return false
    const recent = (this.begins.get(pool) ?? []).filter((at) => at > this.now() - startsPer.ms)
    return recent.length >= startsPer.count
  }

  /** Returns whether the caller of a task has its share running. */
  private isHeld(
    { pool, name, caller }: StoredTask, { maxPerCaller = Infinity, maxPerCallerOf }: RunLimits,
  ): boolean {
    if (caller === undefined) return false
    const own = (task: StoredTask): boolean => task.pool === pool && task.caller === caller
    return this.running(own) >= maxPerCaller
      || this.running((task) => own(task) && task.name === name) >= (maxPerCallerOf?.get(name) ?? Infinity)
  }

  private running(is: (task: StoredTask) => boolean): number {
    return this.live().filter(({ task, leaseEndsAt }) => (
      task.status === 'processing' && leaseEndsAt > this.now() && is(task)
    )).length
  }

  /** Lets a new task meet the unfinished one with its business key. */
  private meet(row: Row, task: NewTask): Created {
    if (task.unique?.ifExists !== 'replace' || row.task.run > 0) return { outcome: 'exists', task: row.task }
    const { dueAt, input, task: { startAt, expiresAt, details, priority, pool } } = this.newRow(task)
    const { version } = row.task
    Object.assign(row, { dueAt, input, hasFiles: task.hasFiles ?? false })
    row.task = { ...row.task, startAt, expiresAt, details, priority, pool, version: version + 1 }
    this.notify(row.task.id)
    return { outcome: 'replaced', task: row.task }
  }

  private drop(id: string, row: Row): void {
    this.rows.delete(id)
    if (row.hasFiles) this.gone.add(row)
    this.notify(id)
  }

  private isScheduled({ status, attempt, startAt = 0 }: StoredTask): boolean {
    return status === 'queued' && attempt === 0 && startAt > this.now()
  }

  private begin(row: Row): StoredTask {
    const now = this.now()
    const before = row.task
    row.leaseEndsAt = now + this.settings.leaseMs
    row.lease = Math.random().toString(36)
    row.task = {
      ...before,
      status: 'processing',
      callbackAt: undefined,
      version: before.version + 1,
      run: before.run + 1,
      attempt: before.attempt + 1,
      crashes: before.crashes + (before.status === 'processing' ? 1 : 0),
      startedAt: before.startedAt ?? now,
      runStartedAt: now,
    }
    this.notify(before.id)
    return before
  }

  private newRow(task: NewTask): Row {
    const now = this.now()
    const { start } = task
    const at = start === undefined ? 0 : 'at' in start ? start.at : now + start.delayMs
    const startAt = at > now ? at : undefined
    return {
      task: {
        id: task.id, birth: task.birth, key: task.key, owner: task.owner, caller: task.caller,
        name: task.name, pool: task.pool, priority: task.priority, status: 'queued', version: 1,
        run: 0, attempt: 0, crashes: 0, createdAt: now, startAt, startedAt: undefined,
        runStartedAt: undefined, finishedAt: undefined,
        expiresAt: (startAt ?? now) + task.keepMs, callbackRun: 0, callbackAt: undefined,
        details: task.details, result: undefined,
      },
      input: task.input,
      checkpoint: undefined,
      group: task.limit?.group,
      dueAt: startAt ?? now,
      leaseEndsAt: 0,
      lease: '',
      unique: task.unique?.key,
      hasFiles: task.hasFiles ?? false,
      files: undefined,
      removeAt: 0,
    }
  }
}

function bytesOf({ task, input, checkpoint = '' }: Row): number {
  const { details, result = '' } = task
  const texts = [input?.text ?? '', checkpoint, JSON.stringify(details), result]
  return texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0)
}

function compareRanks(a: readonly number[], b: readonly number[]): number {
  const at = a.findIndex((rank, n) => rank !== b[n])
  return at === -1 ? 0 : (a[at] as number) - (b[at] as number)
}

interface Position {
  readonly createdAt: number
  readonly id: string
}

function compare(a: Position, b: Position): number {
  return a.createdAt - b.createdAt || (a.id < b.id ? -1 : Number(a.id > b.id))
}

/** Returns whether a task begins at its time. */
function isWaiting({ status }: StoredTask): boolean {
  return status === 'queued' || status === 'input_required'
}
