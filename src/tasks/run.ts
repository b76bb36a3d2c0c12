import { httpError } from '../http/errors.js'
import type { MaybePromise } from '../http/exchange.js'
import { validate, type Validation } from '../schema/index.js'
import { RunContext } from './context.js'
import type { AnyTaskDefinition, TaskContext } from './define.js'
import { failureOf, toFailure, type Failure } from './failure.js'
import { toResultText } from './result.js'
import { TIMED_OUT, type Stop } from './stop.js'

/** How one run ended. */
export type Outcome =
  | { readonly kind: 'completed'; readonly result: string }
  /** `cause` is what a direct answer throws. */
  | { readonly kind: 'failed'; readonly failure: Failure; readonly cause: unknown; readonly timedOut: boolean }
  /** Stopped from outside; `reason` is that of the signal. */
  | { readonly kind: 'aborted'; readonly reason: unknown }

/** How long a run may go on after its signal has aborted before its place is given to others. */
const ABORT_GRACE_MS = 1000

export interface RunOptions extends Omit<TaskContext, 'signal'> {
  /** Stops the run. It serves one run. */
  readonly stop: Stop
  readonly timeoutMs: number
  readonly maxResultBytes: number
}

/**
 * Runs a definition once on input that came over a wire or out of a queue: it is judged (again) here,
 * because a schema's output need not survive a queue. Never throws and always settles, whatever `run`
 * does: throw anything, never settle, or go on after its signal.
 */
export async function runOnce(definition: AnyTaskDefinition, rawInput: unknown, options: RunOptions): Promise<Outcome> {
  const { stop, timeoutMs, maxResultBytes } = options
  if (stop.aborted) return { kind: 'aborted', reason: stop.reason }
  try {
    const value = await work(definition, rawInput, options)
    if (value !== STOPPED && !stop.aborted) {
      const result = toResultText(value)
      if (Buffer.byteLength(result) <= maxResultBytes) return { kind: 'completed', result }
      const cause = new RangeError(`The result of ${definition.name} is larger than ${String(maxResultBytes)} bytes`)
      return { kind: 'failed', failure: failureOf('result_too_large'), cause: httpError('result_too_large', { cause }), timedOut: false }
    }
  } catch (error) {
    if (!stop.aborted) return { kind: 'failed', failure: toFailure(error), cause: error, timedOut: false }
  } finally {
    stop.end()
  }
  if (stop.reason !== TIMED_OUT) return { kind: 'aborted', reason: stop.reason }
  const cause = new Error(`${definition.name} ran longer than ${String(timeoutMs)} ms`)
  return { kind: 'failed', failure: failureOf('task_timeout'), cause: httpError('task_timeout', { cause }), timedOut: true }
}

const STOPPED = Symbol('stopped')

/** What the run comes to, or `STOPPED` when it goes on although it was told to stop. */
function work(definition: AnyTaskDefinition, rawInput: unknown, options: RunOptions): Promise<unknown> {
  return new Promise((resolve, reject) => {
    options.stop.begin(options.timeoutMs, ABORT_GRACE_MS, () => { resolve(STOPPED) })
    const input = toInput(definition, rawInput)
    const told = new RunContext(options)
    if (input instanceof Promise) input.then((judged) => definition.run(judged, told)).then(resolve, reject)
    // Not `resolve(…run())`: a promise that has taken on another hears no more of the grace.
    else Promise.resolve(definition.run(input, told)).then(resolve, reject)
  })
}

/**
 * Judges input; throws `invalid_input` with pointers when the schema refuses it. What comes out is what this
 * definition's `run` and `check` take: `never` is how that is said where the type is not known.
 */
export function toInput(definition: AnyTaskDefinition, rawInput: unknown): MaybePromise<never> {
  if (!definition.input) return rawInput as never
  const judged = validate(definition.input, rawInput)
  return judged instanceof Promise ? judged.then(valueOf) : valueOf(judged)
}

function valueOf(outcome: Validation<unknown>): never {
  if ('details' in outcome) throw httpError('invalid_input', { details: outcome.details })
  return outcome.value as never
}
