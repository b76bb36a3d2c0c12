import { isPending, type MaybePromise } from '../../runtime/maybe-promise.js'
import { httpError } from '../../http/errors.js'
import { validate, type Validation } from '../../schema/validate.js'
import { RunContext, type RunOptions } from './context.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import { failureOf, isPermanent, toFailure, type Failure } from './failure.js'
import { toResultText } from '../record/result.js'
import { TIMED_OUT } from './stop.js'

/** How one run ended. */
export type Outcome =
  | { readonly kind: 'completed'; readonly result: string }
  /** `cause` is what a direct answer throws. */
  | { readonly kind: 'failed'; readonly failure: Failure; readonly cause: unknown; readonly timedOut: boolean }
  /** Stopped from outside; `reason` is that of the signal. */
  | { readonly kind: 'aborted'; readonly reason: unknown }

/** How long a run may go on after its signal has aborted before its place is given to others. */
const ABORT_GRACE_MS = 1000

/**
 * Judges input that came over a wire and runs a definition on it once. Never throws and always
 * settles, whatever `run` does: throw anything, never settle, or continue after its signal.
 */
export function runOnce(definition: AnyTaskDefinition, rawInput: unknown, options: RunOptions): MaybePromise<Outcome> {
  return launch(definition, options, (told) => {
    const input = toInput(definition, rawInput)
    return isPending(input) ? input.then((judged) => definition.run(judged, told)) : definition.run(input, told)
  })
}

/** As `runOnce`, for input that `toInput` has judged. */
export function runJudged(definition: AnyTaskDefinition, input: never, options: RunOptions): MaybePromise<Outcome> {
  return launch(definition, options, (told) => definition.run(input, told))
}

/** The outcome of work that failed before it began. */
export function failedOutcome(cause: unknown): Outcome {
  return { kind: 'failed', failure: toFailure(cause), cause, timedOut: false }
}

function launch(definition: AnyTaskDefinition, options: RunOptions, start: (told: RunContext) => unknown): MaybePromise<Outcome> {
  const { stop } = options
  if (stop.aborted) return { kind: 'aborted', reason: stop.reason }
  let value: unknown
  try {
    value = start(new RunContext(options))
    if (!isPending(value)) return ended(definition, options, value)
  } catch (error) {
    return broken(definition, options, error)
  }
  return settled(definition, options, value)
}

/**
 * The outcome of a run that has given a promise; at the latest when it has gone on for a while
 * although it was told to stop.
 */
function settled(definition: AnyTaskDefinition, options: RunOptions, value: PromiseLike<unknown>): Promise<Outcome> {
  return new Promise((resolve) => {
    const { stop, timeoutMs } = options
    stop.begin(timeoutMs, ABORT_GRACE_MS, () => { resolve(stopped(definition, options)) })
    // What is no promise of ours may do anything when it is asked to go on.
    Promise.resolve(value).then(
      (result) => { if (!stop.over) resolve(ended(definition, options, result)) },
      (error: unknown) => { if (!stop.over) resolve(broken(definition, options, error)) },
    )
  })
}

function ended(definition: AnyTaskDefinition, options: RunOptions, value: unknown): Outcome {
  const { stop, maxResultBytes } = options
  if (stop.aborted) return stopped(definition, options)
  try {
    const result = toResultText(value)
    stop.end()
    if (3 * result.length <= maxResultBytes || Buffer.byteLength(result) <= maxResultBytes) return { kind: 'completed', result }
    const cause = new RangeError(`The result of ${definition.name} is larger than ${String(maxResultBytes)} bytes`)
    return { kind: 'failed', failure: failureOf('result_too_large'), cause: httpError('result_too_large', { cause }), timedOut: false }
  } catch (error) {
    return broken(definition, options, notJson(definition.name, error))
  }
}

/**
 * Says whose result it is: no frame of the error's stack does. What a `toJSON` throws on purpose
 * stays as it is.
 */
function notJson(name: string, error: unknown): unknown {
  try {
    return error instanceof TypeError && !isPermanent(error) ? new TypeError(`The result of ${name} is not JSON: ${error.message}`, { cause: error }) : error
  } catch {
    // A proxy or a getter of the thrown value threw.
    return error
  }
}

function broken(definition: AnyTaskDefinition, options: RunOptions, error: unknown): Outcome {
  if (options.stop.aborted) return stopped(definition, options)
  options.stop.end()
  return failedOutcome(error)
}

function stopped(definition: AnyTaskDefinition, { stop, timeoutMs }: RunOptions): Outcome {
  stop.end()
  if (stop.reason !== TIMED_OUT) return { kind: 'aborted', reason: stop.reason }
  const cause = new Error(`${definition.name} ran longer than ${String(timeoutMs)} ms`)
  return { kind: 'failed', failure: failureOf('task_timeout'), cause: httpError('task_timeout', { cause }), timedOut: true }
}

/**
 * Judges input; throws `invalid_input` with pointers when the schema refuses it. What comes out is
 * what this definition's `run` and `check` take: `never` is how that is said where the type is not
 * known.
 */
export function toInput(definition: AnyTaskDefinition, rawInput: unknown): MaybePromise<never> {
  if (!definition.input) return rawInput as never
  const judged = validate(definition.input, rawInput)
  return judged instanceof Promise ? judged.then(valueOf) : valueOf(judged)
}

/** Judges input by schema and business rule; throws what the client is to see. */
export async function judgeInput(definition: AnyTaskDefinition, rawInput: unknown): Promise<void> {
  const input = await toInput(definition, rawInput)
  await definition.check?.(input)
}

function valueOf(outcome: Validation<unknown>): never {
  if ('details' in outcome) throw httpError('invalid_input', { details: outcome.details })
  return outcome.value as never
}
