import { heapBytesOf, Json } from '../../../src/runtime/json.js'
import type { TaskRun } from '../../../src/engine/engine.js'
import { RunSignal } from '../../../src/engine/run-signal.js'
import type { FileShare, NewTask, StoredTask, TaskDetails } from '../../../src/engine/task.js'
import type { KeyCounts, Linked } from '../../../src/runtime/collections.js'
import type { OwnerShare } from '../owner-shares.js'
import type { Due } from './due-times.js'
import { TaskFields } from './task-fields.js'
import type { Kind, Listed } from './task-lists.js'
import type { Waiting } from './waiting-tasks.js'

/** Maximum memory of a small task in bytes, without its texts. */
const OVERHEAD = 1024
/** Maximum size of an input that is kept in its parsed form, in bytes. */
const SMALL_INPUT = 2048

/** A task in memory, with its place in every list. */
export class StoredNode extends TaskFields implements Listed, Linked<StoredNode> {
  input: Json | undefined
  checkpoint: string | undefined
  hasFiles: boolean
  files: FileShare | undefined
  /** Bytes that count towards the limits. */
  bytes = 0
  /** Counts of unfinished tasks by caller, if the task is among them. */
  countedIn: KeyCounts | undefined
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

  constructor(task: NewTask, now: number) {
    super(task, now)
    const { input, hasFiles = false } = task
    this.input = input.heapBytes > SMALL_INPUT ? input.pack() : input
    this.hasFiles = hasFiles
    this.files = undefined
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

  get caller(): string | undefined { return this.node.caller }
  get priority(): number { return this.node.priority }
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

  get caller(): string | undefined { return this.node.caller }
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
    const { checkpoint, crashed } = node
    this.task = node.toTask()
    this.input = node.takeInput()
    this.checkpoint = checkpoint
    this.crashed = crashed
  }
}
