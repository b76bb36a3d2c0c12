import { httpError } from '../../http/errors.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import type { TaskContext } from '../definition/run-context.js'
import { toResultText } from '../definition/json-values.js'
import type { StoredTaskFailure } from '../record/details.js'
import { failureOf, isPermanent, toFailure, shuttingDown } from './failure.js'
import { namedOwner } from '../../runtime/names.js'
import { SharedLimit, heapShare } from '../../runtime/shared-limit.js'
import { isPending, type MaybePromise } from '../../runtime/maybe-promise.js'
import type { TaskRun } from '../../engine/engine.js'
import { RunSignal, WorkerClosingError } from '../../engine/runs.js'
import type { OwnContext } from '../../runtime/own-context.js'
import { setGlobalTimeout, settles } from '../../runtime/timers.js'

export type Outcome =
  | { readonly kind: 'completed', readonly result: string }
  /** `cause` is the error that a synchronous request gets. */
  | { readonly kind: 'failed', readonly failure: StoredTaskFailure, readonly cause: unknown, readonly timedOut: boolean }
  /** Stopped from outside. `reason` is the reason of the signal. */
  | { readonly kind: 'aborted', readonly reason: unknown }

/** Limits of one run. */
export interface RunOptions {
  /** Stops the run. It serves one run only. */
  readonly stop: Stop
  readonly timeoutMs: number
  readonly maxResultBytes: number
}

export function errorOf(outcome: Outcome): unknown {
  return outcome.kind === 'failed' ? outcome.cause ?? new Error('The run failed') : undefined
}

export function failedOutcome(cause: unknown): Outcome {
  return { kind: 'failed', failure: toFailure(cause), cause, timedOut: false }
}

/**
 * Performs one run. Never throws or rejects, and always settles: waits for a promise of `start` until the run has
 * used its time and grace time.
 */
export function runOnce(
  definition: AnyTaskDefinition, options: RunOptions, start: () => unknown,
): MaybePromise<Outcome> {
  const { stop, timeoutMs } = options
  if (stop.aborted) return { kind: 'aborted', reason: stop.reason }
  try {
    const started = start()
    if (!isPending(started)) return returned(definition, options, started)
    return new Promise((resolve) => {
      const fail = (error: unknown): void => { resolve(thrown(definition, options, error)) }
      stop.begin(timeoutMs, fail)
      // Wraps foreign thenables: their `then` may throw or settle twice.
      Promise.resolve(started).then((value) => { resolve(returned(definition, options, value)) }, fail)
    })
  } catch (error) {
    return thrown(definition, options, error)
  }
}

function thrown(definition: AnyTaskDefinition, options: RunOptions, error: unknown): Outcome {
  return options.stop.aborted ? stopped(definition, options) : failedOutcome(error)
}

function returned(definition: AnyTaskDefinition, options: RunOptions, value: unknown): Outcome {
  const { stop, maxResultBytes } = options
  if (stop.aborted) return stopped(definition, options)
  const { name } = definition
  let result: string
  try {
    result = toResultText(value)
  } catch (error) {
    return failedOutcome(isNotJson(error)
      ? new TypeError(`The result of ${name} is not JSON: ${error.message}`, { cause: error })
      : error)
  }
  // A UTF-16 unit takes at most three bytes.
  if (3 * result.length <= maxResultBytes || Buffer.byteLength(result) <= maxResultBytes) {
    return { kind: 'completed', result }
  }
  const cause = new RangeError(`The result of ${name} is larger than ${maxResultBytes} bytes`)
  return tooFar('result_too_large', cause, false)
}

/** True for an error of `JSON.stringify` itself. */
function isNotJson(error: unknown): error is TypeError {
  try {
    return error instanceof TypeError && !isPermanent(error)
  } catch {
    // A proxy or a getter of the thrown value threw.
    return false
  }
}

function stopped({ name }: AnyTaskDefinition, { stop, timeoutMs }: RunOptions): Outcome {
  if (stop.reason !== TIMED_OUT) return { kind: 'aborted', reason: stop.reason }
  return tooFar('task_timeout', new Error(`${name} ran longer than ${timeoutMs} ms`), true)
}

function tooFar(
  code: 'task_timeout' | 'result_too_large', cause: Error, timedOut: boolean,
): Outcome {
  return { kind: 'failed', failure: failureOf(code), cause: httpError(code, { cause }), timedOut }
}

/** Properties of the context of a run. `owner` is that of a stored task: see `storedOwner`. */
type ContextFacts = Omit<TaskContext, 'signal' | 'tenant'>

/** The second argument of `run`. */
export class RunContext implements TaskContext {
  readonly taskId: string | undefined
  readonly attempt: number
  readonly lastAttempt: boolean
  readonly workId: string | undefined
  readonly owner: string | undefined
  readonly tenant: string | undefined
  readonly external: string | undefined
  readonly context: unknown
  readonly progress: TaskContext['progress']
  readonly log: TaskContext['log']
  readonly files: TaskContext['files']
  readonly checkpoint: TaskContext['checkpoint']
  readonly ask: TaskContext['ask']
  declare readonly signal: AbortSignal
  readonly #stop: Stop

  constructor(facts: ContextFacts, stop: Stop) {
    const {
      taskId, attempt, lastAttempt, workId, owner, external, context, progress, log, files, checkpoint, ask,
    } = facts
    this.taskId = taskId
    this.attempt = attempt
    this.lastAttempt = lastAttempt
    this.workId = workId
    const named = namedOwner(owner)
    this.owner = named.owner
    this.tenant = named.tenant
    this.external = external
    this.context = context
    this.progress = progress
    this.log = log
    this.files = files
    this.checkpoint = checkpoint
    this.ask = ask
    this.#stop = stop
    // An own property, so that a copy (`{ ...context }`) has it too. All contexts share one getter,
    // because V8 keeps a hidden class, and with it the whole run, for each getter that it meets.
    Object.defineProperty(this, 'signal', RunContext.#signal)
  }

  static readonly #signal: PropertyDescriptor & ThisType<RunContext> = {
    enumerable: true,
    get() { return this.#stop.signal },
  }
}

/** Limits the heap of the parsed inputs of all runs of this process. */
const RUNNING = new SharedLimit(heapShare(4, Infinity), Infinity)
/**
 * Smaller inputs are not counted, because the number of places limits them. The size is in bytes of
 * heap.
 */
const COUNTED_BYTES = 1_048_576

const UNCOUNTED = { release: () => undefined }

/**
 * Acquires memory for a parsed input of this size. Returns `undefined` if other runs use all of it.
 */
export function holdInput(heapBytes: number): { release(): void } | undefined {
  if (heapBytes <= COUNTED_BYTES) return UNCOUNTED
  // The schema may make a copy.
  const memory = RUNNING.open('all')
  return memory.tryAcquire(2 * heapBytes) === undefined ? memory : undefined
}

type StopSource = Pick<TaskRun, 'signal'> & Partial<Pick<TaskRun, 'onAbort'>>

function onTime(stop: Stop): void {
  stop.timeIsUp()
}

export const TIMED_OUT = new Error('The task ran longer than it may')

const LEFT = new Error('The run has ended before its promise settled')

/** Time for which a run may continue after its signal has aborted, in milliseconds. */
const ABORT_GRACE_MS = 1000

export class Stop extends RunSignal {
  private ended = false
  private graceMs = ABORT_GRACE_MS
  private followed: { readonly signal: AbortSignal, readonly listener: () => void } | undefined
  private timer: NodeJS.Timeout | undefined
  /** Ends the wait for the run with an error. */
  private giveUp: ((error: Error) => void) | undefined

  /**
   * @param context - async context of the listeners. Default: the context of the call of `abort`
   */
  constructor(source: StopSource, private readonly context?: OwnContext) {
    super()
    if (source.onAbort) source.onAbort((reason) => { this.abort(reason) })
    else this.follow(source.signal)
  }

  /** Aborts the run, which may continue for `graceMs`. Only the first reason counts. */
  override abort(reason: unknown, graceMs = ABORT_GRACE_MS): void {
    if (this.aborted || this.ended) return
    this.graceMs = graceMs
    if (this.giveUp) this.startTimer(graceMs)
    if (this.context) this.context.run(() => { super.abort(reason) })
    else super.abort(reason)
  }

  /** Starts the time of a run. Calls `giveUp` if the run continues beyond its time and grace time. */
  begin(timeoutMs: number, giveUp: (error: Error) => void): void {
    this.giveUp = giveUp
    this.startTimer(this.aborted ? this.graceMs : timeoutMs)
  }

  /** Aborts the run, and waits for it no longer. */
  leave(reason: unknown): void {
    this.abort(reason)
    this.giveUp?.(LEFT)
  }

  end(): void {
    this.ended = true
    this.giveUp = undefined
    clearTimeout(this.timer)
    this.followed?.signal.removeEventListener('abort', this.followed.listener)
  }

  private startTimer(ms: number): void {
    clearTimeout(this.timer)
    this.timer = setGlobalTimeout(onTime, ms, this).unref()
  }

  timeIsUp(): void {
    if (!this.aborted) this.abort(TIMED_OUT)
    else this.giveUp?.(new Error('The run did not end after its signal had aborted'))
  }

  private follow(signal: AbortSignal): void {
    const listener = (): void => { this.abort(signal.reason) }
    if (signal.aborted) return listener()
    signal.addEventListener('abort', listener, { once: true })
    this.followed = { signal, listener }
  }
}

/** Time for aborted runs to end and for their responses, in milliseconds. */
const GRACE_MS = 2000

/**
 * The active runs of synchronous requests. They are not runs of an engine, so `close` waits for
 * them here.
 */
export class DirectRuns {
  private readonly runs = new Map<Stop, Promise<unknown>>()
  private closed = false

  get size(): number {
    return this.runs.size
  }

  /** Performs a run. Throws 503 `shutting_down` once `close` was called. */
  async perform<T>(stop: Stop, run: () => Promise<T>): Promise<T> {
    if (this.closed) throw shuttingDown()
    const running = run()
    this.runs.set(stop, running)
    try {
      return await running
    } finally {
      this.runs.delete(stop)
    }
  }

  /** Lets active runs finish for up to `drainMs`, then aborts them and waits shortly. */
  async close(drainMs: number): Promise<void> {
    this.closed = true
    if (await this.end(drainMs)) return
    const reason = new WorkerClosingError()
    for (const stop of this.runs.keys()) stop.abort(reason)
    await this.end(GRACE_MS)
  }

  private end(ms: number): Promise<boolean> {
    return settles(Promise.allSettled(this.runs.values()), ms)
  }
}
