import { heapBytesOf } from '../../../src/runtime/json-size.js'
import type { TaskRun } from '../../../src/engine/engine.js'
import { RunSignal } from '../../../src/engine/run-signal.js'
import { Json } from '../../../src/runtime/json.js'
import {
  isFinalStatus, isVisibleChange, type Expected, type FileShare, type NewTask, type StoredTask,
  type TaskChange, type TaskDetails,
} from '../../../src/engine/task.js'
import type { Linked } from '../linked-list.js'
import type { OwnerShare } from '../owner-shares.js'
import type { Due } from './due-times.js'
import type { Kind, Listed } from './task-lists.js'
import type { Waiting } from './waiting-tasks.js'

/** Maximum memory of a small task in bytes, without its texts. */
const OVERHEAD = 1024
/** Maximum size of an input that is kept in its parsed form, in bytes. */
const SMALL_INPUT = 2048

/** A task in memory, with its place in every list. */
export class StoredNode implements Listed, Linked<StoredNode> {
  input: Json | undefined
  checkpoint: string | undefined
  hasFiles: boolean
  files: FileShare | undefined
  /** Bytes that count towards the limits. */
  bytes = 0
  /** Name of the count of unfinished tasks in which the task is. */
  countedAs: string | undefined
  /** Waits for its run, or for the start of it. */
  start: Start | undefined
  callback: CallbackAttempt | undefined
  running: ActiveRun | undefined
  /** The task before the run that was lost, if its next run follows a lost one. */
  crashed: StoredTask | undefined
  /** Lets a manual clock move again, once the task is not at work. */
  releaseClock: (() => void) | undefined

  sortedAs: Kind | undefined = undefined
  kind: Kind | undefined = undefined
  isUnsorted = false

  /** Share of its caller, while the task is final. */
  share: OwnerShare<StoredNode> | undefined
  previous: StoredNode | undefined = undefined
  next: StoredNode | undefined = undefined

  /** The details that were measured last, and their bytes. */
  #measured: TaskDetails | undefined
  #detailBytes = 0

  constructor(public task: StoredTask, { input, hasFiles = false }: NewTask) {
    this.input = input.heapBytes > SMALL_INPUT ? input.pack() : input
    this.hasFiles = hasFiles
    this.files = undefined
    this.bytes = this.measure()
  }

  get id(): string { return this.task.id }
  get createdAt(): number { return this.task.createdAt }
  get owner(): string | undefined { return this.task.owner }

  /** Returns the input for a run, which may change its value. The text stays for the next run. */
  takeInput(): Json {
    const input = this.input as Json
    this.input = Json.fromText(input.text)
    return input
  }

  /** Returns the bytes that the task takes now. */
  measure(): number {
    const { input, checkpoint = '', task: { details, result = '' } } = this
    if (details !== this.#measured) {
      this.#measured = details
      this.#detailBytes = heapBytesOf(details)
    }
    const texts = 2 * (result.length + checkpoint.length)
    return OVERHEAD + (input?.heapBytes ?? 0) + this.#detailBytes + texts
  }
}

/** The next run of a task: waiting for its time, or for a place. */
export class Start implements Due, Waiting<Start> {
  position = -1
  previous: Start | undefined = undefined
  next: Start | undefined = undefined
  /** `true` if it waits for a place. */
  isReady = false
  waitsSince = 0
  /** Turn of the event loop in which it became ready. */
  turn = 0

  constructor(readonly node: StoredNode, public at: number, readonly pool: string) {}

  get caller(): string | undefined { return this.node.task.caller }
  get priority(): number { return this.node.task.priority }
}

/** The next attempt at the callback of a task. */
export class CallbackAttempt implements Due, Waiting<CallbackAttempt> {
  readonly priority = 0
  position = -1
  previous: CallbackAttempt | undefined = undefined
  next: CallbackAttempt | undefined = undefined
  isReady = false
  waitsSince = 0
  turn = 0

  constructor(readonly node: StoredNode, public at: number) {}

  get caller(): string | undefined { return this.node.task.caller }
}

/** A run that has begun. */
export class ActiveRun extends RunSignal implements TaskRun {
  readonly task: StoredTask
  readonly input: Json
  readonly checkpoint: string | undefined
  readonly crashed: StoredTask | undefined

  /** @param pool - the pool whose place the run has */
  constructor(readonly node: StoredNode, readonly pool: string) {
    super()
    const { task, checkpoint, crashed } = node
    this.task = task
    this.input = node.takeInput()
    this.checkpoint = checkpoint
    this.crashed = crashed
  }
}

/** Returns a new task as it is stored. */
export function storedTask(task: NewTask, now: number): StoredTask {
  const { id, birth, key, owner, caller, name, pool, priority, details, start, keepMs } = task
  const wanted = start === undefined ? now : 'at' in start ? start.at : now + start.delayMs
  const startAt = wanted > now ? wanted : undefined
  return {
    id, birth, key, owner, caller, name, pool, priority,
    status: 'queued', version: 1, run: 0, attempt: 0, crashes: 0,
    createdAt: now, startAt, startedAt: undefined, runStartedAt: undefined, finishedAt: undefined,
    expiresAt: Math.max(wanted, now) + keepMs,
    callbackRun: 0, callbackAt: undefined, details, result: undefined,
  }
}

/** Returns a task as it is when its next run begins. */
export function begunTask(task: StoredTask, now: number): StoredTask {
  return {
    ...task, status: 'processing', version: task.version + 1, run: task.run + 1,
    attempt: task.attempt + 1, startedAt: task.startedAt ?? now, runStartedAt: now,
  }
}

/** Returns a task after a change. */
export function changedTask(
  task: StoredTask, expected: Expected, change: TaskChange, now: number,
): StoredTask {
  const { status = task.status, isGivenBack = false } = change
  const isRetry = status === 'queued' && isFinalStatus(task.status)
  const isEnd = isFinalStatus(status) && !isFinalStatus(task.status)
  const { callbackMs, keepMs } = change
  return {
    ...task, status,
    version: task.version + (isVisibleChange(change) ? 1 : 0),
    pool: change.pool ?? task.pool,
    attempt: isGivenBack ? task.attempt - 1 : task.attempt,
    crashes: crashesAfter(task, change),
    startAt: isRetry ? undefined : task.startAt,
    finishedAt: isEnd ? now : isRetry ? undefined : task.finishedAt,
    expiresAt: keepMs === undefined ? task.expiresAt : now + keepMs,
    callbackRun: callbackMs === undefined || 'callbackRun' in expected
      ? task.callbackRun : task.callbackRun + 1,
    callbackAt: callbackMs === undefined
      ? task.callbackAt : callbackMs === null ? undefined : now + callbackMs,
    details: change.details ?? task.details,
    result: isRetry ? undefined : change.result ?? task.result,
  }
}

function crashesAfter(
  task: StoredTask, { status, isGivenBack = false, checkpoint }: TaskChange,
): number {
  const isEnd = status === 'queued' && !isGivenBack
  return isEnd || typeof checkpoint === 'string' ? 0 : task.crashes
}
