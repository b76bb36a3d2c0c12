import { httpError } from '../../http/errors.js'
import { validate } from '../../schema/schema.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import type { TaskContext } from '../definition/run-context.js'
import { toResultText } from '../definition/json-values.js'
import type { Failure } from '../record/details.js'
import { failureOf, isPermanent, toFailure } from './failure.js'
import { TIMED_OUT, type Stop } from './stop.js'
import { SharedLimit, heapShare } from '../../runtime/shared-limit.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'

export type Outcome =
  | { readonly kind: 'completed', readonly result: string }
  /** `cause` is the error that a synchronous request gets. */
  | { readonly kind: 'failed', readonly failure: Failure, readonly cause: unknown, readonly timedOut: boolean }
  /** Stopped from outside. `reason` is that of the signal. */
  | { readonly kind: 'aborted', readonly reason: unknown }

export interface RunOptions extends Omit<TaskContext, 'signal'> {
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

/** Performs one run. Never throws or rejects, and always settles. */
export function runOnce(
  definition: AnyTaskDefinition, options: RunOptions, start: (context: TaskContext) => unknown,
): MaybePromise<Outcome> {
  const { stop, timeoutMs, maxResultBytes } = options
  if (stop.aborted) return { kind: 'aborted', reason: stop.reason }
  const onValue = (value: unknown): Outcome => (
    stop.aborted ? stopped(definition, options) : completed(definition, value, maxResultBytes)
  )
  const onError = (error: unknown): Outcome => (
    stop.aborted ? stopped(definition, options) : failedOutcome(error)
  )
  try {
    const started = start(new RunContext(options))
    return isThenable(started)
      ? stop.waitFor(started, timeoutMs, onValue, onError) : onValue(started)
  } catch (error) {
    return onError(error)
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function'
}

function completed({ name }: AnyTaskDefinition, value: unknown, maxResultBytes: number): Outcome {
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

/** Returns the input of `run`, whose type is not known. Throws 400 `invalid_input`. */
export async function toInput(definition: AnyTaskDefinition, rawInput: unknown): Promise<never> {
  if (!definition.input) return rawInput as never
  const outcome = await validate(definition.input, rawInput)
  if ('details' in outcome) throw httpError('invalid_input', { details: outcome.details })
  return outcome.value as never
}

class RunContext implements TaskContext {
  readonly taskId: string | undefined
  readonly attempt: number
  readonly lastAttempt: boolean
  readonly owner: string | undefined
  readonly context: unknown
  readonly progress: TaskContext['progress']
  readonly files: TaskContext['files']
  readonly checkpoint: TaskContext['checkpoint']
  declare readonly signal: AbortSignal
  readonly #stop: Stop

  constructor(options: RunOptions) {
    const { taskId, attempt, lastAttempt, owner, context, progress, files, checkpoint } = options
    this.taskId = taskId
    this.attempt = attempt
    this.lastAttempt = lastAttempt
    this.owner = owner
    this.context = context
    this.progress = progress
    this.files = files
    this.checkpoint = checkpoint
    this.#stop = options.stop
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
/** Smaller inputs are not counted, because the number of places limits them. In bytes of heap. */
const COUNTED_BYTES = 1_048_576

const UNCOUNTED = { release: () => undefined }

/** Acquires memory for a parsed input of this size. Returns `undefined` if other runs use it. */
export function holdInput(heapBytes: number): { release(): void } | undefined {
  if (heapBytes <= COUNTED_BYTES) return UNCOUNTED
  // The schema may make a copy.
  const memory = RUNNING.open('all')
  return memory.tryAcquire(2 * heapBytes) === undefined ? memory : undefined
}
