import {
  isFinalStatus, isVisibleChange, type Expected, type NewTask, type StoredTask, type TaskChange,
  type TaskDetails, type TaskStatus,
} from '../../../src/engine/task.js'

/**
 * A stored task whose properties change in place. Its times count from its creation, because V8
 * keeps small whole numbers inside of an object, and larger ones in objects of their own: those, and
 * a new object for each change, took a tenth of the work of a task.
 */
export class TaskFields {
  readonly id: string
  readonly birth: string
  readonly key: string | undefined
  readonly owner: string | undefined
  readonly caller: string | undefined
  readonly name: string
  readonly priority: number
  readonly createdAt: number
  pool: string
  status: TaskStatus = 'queued'
  version = 1
  run = 0
  attempt = 0
  crashes = 0
  callbackRun = 0
  details: TaskDetails
  result: string | undefined = undefined
  #startAfter: number | undefined = undefined
  #startedAfter: number | undefined = undefined
  #runStartedAfter: number | undefined = undefined
  #finishedAfter: number | undefined = undefined
  #callbackAfter: number | undefined = undefined
  #expiresAfter: number

  constructor(task: NewTask, now: number) {
    const { start, keepMs } = task
    const delayMs = start === undefined ? 0 : 'at' in start ? start.at - now : start.delayMs
    this.id = task.id
    this.birth = task.birth
    this.key = task.key
    this.owner = task.owner
    this.caller = task.caller
    this.name = task.name
    this.pool = task.pool
    this.priority = task.priority
    this.createdAt = now
    this.details = task.details
    if (delayMs > 0) this.#startAfter = delayMs
    this.#expiresAfter = Math.max(delayMs, 0) + keepMs
  }

  get startAt(): number | undefined { return this.#time(this.#startAfter) }
  get callbackAt(): number | undefined { return this.#time(this.#callbackAfter) }
  get expiresAt(): number { return this.createdAt + this.#expiresAfter }

  /** Returns the task as it is now. Later changes do not change what was returned. */
  toTask(): StoredTask {
    const { id, birth, key, owner, caller, name, pool, priority, status, version, run } = this
    const { attempt, crashes, createdAt, startAt, expiresAt, callbackRun, callbackAt } = this
    return {
      id, birth, key, owner, caller, name, pool, priority, status, version, run, attempt, crashes,
      createdAt, startAt,
      startedAt: this.#time(this.#startedAfter),
      runStartedAt: this.#time(this.#runStartedAfter),
      finishedAt: this.#time(this.#finishedAfter),
      expiresAt, callbackRun, callbackAt, details: this.details, result: this.result,
    }
  }

  /** Begins the next run. A task whose run has not ended has lost it by a crash. */
  begin(now: number): void {
    const after = now - this.createdAt
    if (this.status === 'processing') this.crashes++
    this.status = 'processing'
    this.version++
    this.run++
    this.attempt++
    this.#startedAfter ??= after
    this.#runStartedAfter = after
  }

  /** Begins the next attempt at the callback. It is made again at a time, unless it has an outcome. */
  beginCallback(againAt: number): void {
    this.callbackRun++
    this.#callbackAfter = againAt - this.createdAt
  }

  /** Makes a change that `holds` allows. */
  change(expected: Expected, change: TaskChange, now: number): void {
    const { status = this.status, callbackMs, keepMs } = change
    const after = now - this.createdAt
    const wasFinal = isFinalStatus(this.status)
    if (isVisibleChange(change)) this.version++
    if (change.isGivenBack === true) this.attempt--
    if (resetsCrashes(change)) this.crashes = 0
    if (wasFinal && status === 'queued') {
      this.#startAfter = undefined
      this.#finishedAfter = undefined
      this.result = undefined
    } else {
      this.result = change.result ?? this.result
    }
    if (!wasFinal && isFinalStatus(status)) this.#finishedAfter = after
    this.status = status
    this.pool = change.pool ?? this.pool
    this.details = change.details ?? this.details
    if (keepMs !== undefined) this.#expiresAfter = after + keepMs
    if (callbackMs === undefined) return
    if (!('callbackRun' in expected)) this.callbackRun++
    this.#callbackAfter = callbackMs === null ? undefined : after + callbackMs
  }

  /** Returns whether a change may be made. */
  holds(expected: Expected, { status }: TaskChange): boolean {
    if (status === 'queued' && this.status === 'completed') return false
    if ('run' in expected) return this.run === expected.run && this.status === 'processing'
    if ('version' in expected) return this.version === expected.version
    return this.callbackRun === expected.callbackRun && isFinalStatus(this.status)
  }

  #time(after: number | undefined): number | undefined {
    return after === undefined ? undefined : this.createdAt + after
  }
}

function resetsCrashes({ status, isGivenBack = false, checkpoint }: TaskChange): boolean {
  return status === 'queued' && !isGivenBack || typeof checkpoint === 'string'
}
