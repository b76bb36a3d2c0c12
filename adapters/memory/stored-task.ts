import type { ListedStatus, TaskRun } from '../../src/engine/engine.js'
import { RunSignal } from '../../src/engine/runs.js'
import {
  isFinalStatus, isVisibleChange, type Expected, type FileShare, type NewTask, type StoredTask,
  type TaskChange, type TaskDetails, type TaskStatus,
} from '../../src/engine/task.js'
import { LinkedList, type Linked } from '../../src/runtime/collections.js'
import { heapBytesOf, Json } from '../../src/runtime/json.js'
import { SortedList } from './sorted-list.js'
import type { CallerShare } from './space.js'
import type { Listed } from './task-lists.js'

/** Maximum memory of a small task in bytes, without its strings. */
const OVERHEAD = 1024
/** Maximum size of an input that is kept in its parsed form, in bytes of heap. */
const SMALL_INPUT = 16_384
/** Number of empty lines that a level keeps. */
const KEPT_LINES = 64

/** Number of unfinished tasks of a caller that a limit counts. */
export interface CallerCount {
  readonly caller: string
  readonly group: Map<string, CallerCount>
  tasks: number
}

/**
 * A stored task whose properties change in place. Times count from its creation, because V8 keeps only
 * small whole numbers without an object of their own. Both together save a tenth of the work of a task.
 */
export class StoredNode implements Listed, Linked<StoredNode> {
  readonly id: string
  readonly birth: string
  readonly key: string | undefined
  readonly owner: string | undefined
  readonly caller: string | undefined
  readonly name: string
  readonly createdAt: number
  priority: number
  pool: string
  status: TaskStatus = 'queued'
  version = 1
  run = 0
  attempt = 0
  crashes = 0
  callbackRun = 0
  details: TaskDetails
  result: string | undefined = undefined
  #startAfter: number | undefined
  #startedAfter: number | undefined = undefined
  #runStartedAfter: number | undefined = undefined
  #finishedAfter: number | undefined = undefined
  #callbackAfter: number | undefined = undefined
  #expiresAfter: number

  input: Json | undefined
  checkpoint: string | undefined = undefined
  hasFiles: boolean
  files: FileShare | undefined = undefined
  /** Bytes that count towards the limits. */
  bytes: number
  /** Place in the limit of the caller, while the task is unfinished. */
  count: CallerCount | undefined = undefined
  start: Due | undefined = undefined
  callback: Due | undefined = undefined
  running: ActiveRun | undefined = undefined
  /** Shares that count the run of the task, in a pool with limits. */
  shares: readonly Share[] | undefined = undefined
  /** Business key, while the task is unfinished. */
  unique: string | undefined
  /** While the task runs, a manual clock stands still. This function lets the clock continue. */
  hold: (() => void) | undefined = undefined

  listed: ListedStatus | undefined = undefined
  sortedAs: ListedStatus | undefined = undefined
  isUnsorted = false

  /** Share of its caller, while the task is final. */
  share: CallerShare<StoredNode> | undefined = undefined
  previous: StoredNode | undefined = undefined
  next: StoredNode | undefined = undefined

  /** @param startAt - undefined: it may start at once */
  constructor(task: NewTask, now: number, startAt: number | undefined, count?: CallerCount) {
    this.id = task.id
    this.birth = task.birth
    this.key = task.key
    this.owner = task.owner
    // One string for all tasks of a caller, because it is then compared by its address.
    this.caller = count?.caller ?? task.caller
    this.name = task.name
    this.pool = task.pool
    this.priority = task.priority
    this.createdAt = now
    this.details = task.details
    this.#startAfter = startAt === undefined ? undefined : startAt - now
    this.#expiresAfter = (this.#startAfter ?? 0) + task.keepMs
    this.input = keptInput(task)
    this.hasFiles = task.hasFiles ?? false
    this.unique = task.unique?.key
    this.bytes = this.measure()
  }

  get startAt(): number | undefined { return this.#time(this.#startAfter) }
  get callbackAt(): number | undefined { return this.#time(this.#callbackAfter) }
  get expiresAt(): number { return this.createdAt + this.#expiresAfter }

  /** Returns the task as it is now. Later changes do not affect the returned object. */
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

  /** Takes over the work of a new task that has its business key. */
  replace(task: NewTask, now: number, startAt: number | undefined): void {
    this.version++
    this.input = keptInput(task)
    this.details = task.details
    this.priority = task.priority
    this.pool = task.pool
    this.hasFiles = task.hasFiles ?? false
    this.#startAfter = startAt === undefined ? undefined : startAt - this.createdAt
    this.#expiresAfter = (startAt ?? now) - this.createdAt + task.keepMs
  }

  /** Begins the next run. A run that has not ended has crashed. */
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

  /** @param againAt - time of the next attempt at the callback if this one has no outcome */
  beginCallback(againAt: number): void {
    this.callbackRun++
    this.#callbackAfter = againAt - this.createdAt
  }

  endCallback(): void {
    this.#callbackAfter = undefined
  }

  change(expected: Expected, change: TaskChange, now: number): void {
    const { status = this.status, callbackMs, keepMs, checkpoint } = change
    const after = now - this.createdAt
    const wasFinal = isFinalStatus(this.status)
    if (isVisibleChange(change)) this.version++
    const asks = change.status === 'input_required'
    if (change.isGivenBack === true || asks) this.attempt--
    if (asks || change.status === 'queued' && change.isGivenBack !== true) this.crashes = 0
    if (typeof checkpoint === 'string') this.crashes = 0
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
    this.hasFiles = change.hasFiles ?? this.hasFiles
    this.files = change.files ?? this.files
    if (checkpoint !== undefined) this.checkpoint = checkpoint ?? undefined
    if (change.status === 'completed') {
      this.input = undefined
      this.checkpoint = undefined
    }
    if (keepMs !== undefined) this.#expiresAfter = after + keepMs
    if (callbackMs === undefined) return
    if (!('callbackRun' in expected)) this.callbackRun++
    this.#callbackAfter = callbackMs === null ? undefined : after + callbackMs
  }

  holds(expected: Expected, { status }: TaskChange): boolean {
    if (status === 'queued' && this.status === 'completed') return false
    if ('lease' in expected) return this.status === 'processing' && leaseOf(this) === expected.lease
    if ('version' in expected) return this.version === expected.version
    return this.callbackRun === expected.callbackRun && isFinalStatus(this.status)
  }

  /** Returns the input for a run, which may change the value. Keeps the text for the next run. */
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

  #time(after: number | undefined): number | undefined {
    return after === undefined ? undefined : this.createdAt + after
  }
}

function keptInput({ input }: NewTask): Json {
  return input.heapBytes > SMALL_INPUT ? input.pack() : input
}

/** Runs of one task have different numbers, because an engine in memory loses no begin of a run. */
function leaseOf({ run }: StoredNode): string {
  return String(run)
}

export class ActiveRun extends RunSignal implements TaskRun {
  readonly task: StoredTask
  readonly lease: string
  readonly input: Json
  readonly checkpoint: string | undefined

  /** @param crashed - the task before this run, if the run before crashed */
  constructor(
    readonly node: StoredNode, readonly queue: Queue, readonly crashed: StoredTask | undefined,
  ) {
    super()
    this.task = node.toTask()
    this.lease = leaseOf(node)
    this.input = node.takeInput()
    this.checkpoint = node.checkpoint
  }
}

/** The next run of a task, or the next attempt at its callback. */
export class Due implements Linked<Due> {
  line: Line | undefined = undefined
  previous: Due | undefined = undefined
  next: Due | undefined = undefined
  /** The share that holds it. */
  share: Share | undefined = undefined
  /** Turn of the event loop in which it became ready. */
  turn = 0

  /** @param n - order of those with the same time */
  constructor(
    readonly node: StoredNode, readonly queue: Queue, readonly at: number, readonly n: number,
  ) {}
}

/** The runs of one caller that a limit counts, and the tasks that it holds. */
export class Share {
  running = 0
  readonly held = new SortedList<Due>((one, other) => (
    one.node.priority - other.node.priority || one.at - other.at || one.n - other.n
  ))

  /** @param key - its key in the map of shares */
  constructor(readonly key: string, readonly max: number) {}

  get isFull(): boolean {
    return this.running >= this.max
  }
}

/** The waiting items of one caller. */
class Line extends LinkedList<Due> implements Linked<Line> {
  previous: Line | undefined = undefined
  next: Line | undefined = undefined

  constructor(readonly level: Level, readonly caller: string | undefined) {
    super()
  }
}

class Level {
  /** Lines by caller. Empty lines are kept, because a `Map` that changes with each item is slow. */
  readonly lines = new Map<string | undefined, Line>()
  /** Lines with waiting tasks. The first one has the next turn. */
  readonly turns = new LinkedList<Line>()

  constructor(readonly priority: number) {}
}

/** Items that wait for a place: by priority, then in turns between callers, in constant time. */
export class Queue {
  size = 0
  /** Number of items that have a place. */
  running = 0
  readonly #levels: Level[] = []

  /** @param pool - pool of the runs; `undefined` for callbacks */
  constructor(readonly pool: string | undefined) {}

  get first(): Due | undefined {
    return this.#levels[0]?.turns.first?.first
  }

  *[Symbol.iterator](): Generator<Due, void> {
    for (const { turns } of this.#levels) for (const line of turns) yield* line
  }

  push(item: Due, priority: number): void {
    const { caller } = item.node
    const level = this.#levelOf(priority)
    let line = level.lines.get(caller)
    if (line === undefined) level.lines.set(caller, line = new Line(level, caller))
    if (line.size === 0) level.turns.push(line)
    line.push(item)
    item.line = line
    this.size++
  }

  /** Removes the next item, and moves its caller to the end. */
  take(): Due {
    const item = this.first as Due
    const line = item.line as Line
    const { turns } = line.level
    this.remove(item)
    if (line.size > 0 && turns.size > 1) {
      turns.remove(line)
      turns.push(line)
    }
    return item
  }

  remove(item: Due): void {
    const line = item.line as Line
    const { level } = line
    item.line = undefined
    this.size--
    line.remove(item)
    if (line.size > 0) return
    level.turns.remove(line)
    if (level.lines.size > KEPT_LINES) level.lines.delete(line.caller)
    if (level.turns.size === 0 && this.#levels.length > 1) {
      this.#levels.splice(this.#levels.indexOf(level), 1)
    }
  }

  #levelOf(priority: number): Level {
    if (this.size === 0 && this.#levels[0]?.priority !== priority) this.#levels.length = 0
    let at = 0
    while ((this.#levels[at]?.priority ?? Infinity) < priority) at++
    const found = this.#levels[at]
    if (found?.priority === priority) return found
    const level = new Level(priority)
    this.#levels.splice(at, 0, level)
    return level
  }
}
