import type { ListedStatus, TaskRun } from '../../src/engine/engine.js'
import { RunSignal } from '../../src/engine/runs.js'
import {
  isFinalStatus, isVisibleChange, type Expected, type FileShare, type NewTask, type StoredTask,
  type TaskChange, type TaskDetails, type TaskStatus,
} from '../../src/engine/task.js'
import type { Linked } from '../../src/runtime/collections.js'
import { heapBytesOf, Json } from '../../src/runtime/json.js'
import type { Due, Queue } from './due.js'
import type { OwnerShare } from './owner-shares.js'
import type { Kind, Listed } from './task-lists.js'

/** Maximum memory of a small task in bytes, without its strings. */
const OVERHEAD = 1024
/** Maximum size of an input that is kept in its parsed form, in bytes: some 600 characters of JSON. */
const SMALL_INPUT = 16_384

export interface CallerCount {
  readonly caller: string
  readonly group: Map<string, CallerCount>
  tasks: number
}

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
  caller: string | undefined
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

export class StoredNode extends TaskFields implements Listed, Linked<StoredNode> {
  input: Json | undefined
  checkpoint: string | undefined = undefined
  hasFiles: boolean
  files: FileShare | undefined = undefined
  /** Bytes that count towards the limits. */
  bytes: number
  /** Its place in the limit of its caller, while the task is unfinished. */
  count: CallerCount | undefined
  start: Due<StoredNode> | undefined = undefined
  callback: Due<StoredNode> | undefined = undefined
  running: ActiveRun | undefined = undefined

  listed: ListedStatus | undefined = undefined
  sortedAs: Kind | undefined = undefined
  isUnsorted = false

  /** Share of its caller, while the task is final. */
  share: OwnerShare<StoredNode> | undefined = undefined
  previous: StoredNode | undefined = undefined
  next: StoredNode | undefined = undefined

  constructor(task: NewTask, now: number, count: CallerCount | undefined) {
    super(task, now)
    const { input, hasFiles = false } = task
    // One string for all tasks of a caller: it is compared by its address.
    if (count !== undefined) this.caller = count.caller
    this.count = count
    this.input = input.heapBytes > SMALL_INPUT ? input.pack() : input
    this.hasFiles = hasFiles
    this.bytes = this.measure()
  }

  /** Returns the input for a run, which may change its value. The text stays for the next run. */
  takeInput(): Json {
    const input = this.input as Json
    this.input = Json.fromText(input.text)
    return input
  }

  /** Returns the bytes that the task takes now. */
  measure(): number {
    const { input, checkpoint = '', details, result = '' } = this
    const texts = 2 * (result.length + checkpoint.length)
    return OVERHEAD + (input?.heapBytes ?? 0) + heapBytesOf(details) + texts
  }
}

export class ActiveRun extends RunSignal implements TaskRun {
  readonly task: StoredTask
  readonly input: Json
  readonly checkpoint: string | undefined

  /**
   * @param queue - the pool whose place the run has
   * @param crashed - the task before the run, if that was lost
   */
  constructor(
    readonly node: StoredNode, readonly queue: Queue<StoredNode>, readonly crashed: StoredTask | undefined,
  ) {
    super()
    this.task = node.toTask()
    this.input = node.takeInput()
    this.checkpoint = node.checkpoint
  }
}

function resetsCrashes({ status, isGivenBack = false, checkpoint }: TaskChange): boolean {
  return status === 'queued' && !isGivenBack || typeof checkpoint === 'string'
}
