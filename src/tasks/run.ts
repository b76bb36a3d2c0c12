import { httpError } from '../http/errors.js'
import { validate } from '../schema/index.js'
import type { AnyTaskDefinition, TaskContext } from './define.js'
import { failureOf, toFailure, type Failure } from './failure.js'
import { toResultText } from './result.js'

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
  /** Stops the run from outside. */
  readonly signal: AbortSignal
  readonly timeoutMs: number
  readonly maxResultBytes: number
}

/**
 * Runs a definition once on input that came over a wire or out of a queue: it is judged (again) here,
 * because a schema's output need not survive a queue. Never throws and always settles, whatever `run`
 * does: throw anything, never settle, or go on after its signal.
 */
export async function runOnce(definition: AnyTaskDefinition, rawInput: unknown, options: RunOptions): Promise<Outcome> {
  const { signal: outer, timeoutMs, maxResultBytes, ...context } = options
  const controller = new AbortController()
  const stop = () => controller.abort(outer.reason)
  if (outer.aborted) return { kind: 'aborted', reason: outer.reason }
  outer.addEventListener('abort', stop, { once: true })
  const timer = setTimeout(() => controller.abort(TIMED_OUT), timeoutMs)
  timer.unref()
  let grace: ReturnType<typeof setTimeout> | undefined
  const stopped = new Promise<typeof STOPPED>((resolve) => {
    controller.signal.addEventListener('abort', () => {
      grace = setTimeout(resolve, ABORT_GRACE_MS, STOPPED)
      grace.unref()
    }, { once: true })
  })
  try {
    const work = execute(definition, rawInput, { ...context, signal: controller.signal })
    const value = await Promise.race([work, stopped])
    if (value !== STOPPED && !controller.signal.aborted) {
      const result = toResultText(value)
      if (Buffer.byteLength(result) <= maxResultBytes) return { kind: 'completed', result }
      const cause = new RangeError(`The result of ${definition.name} is larger than ${String(maxResultBytes)} bytes`)
      return { kind: 'failed', failure: failureOf('result_too_large'), cause: httpError('result_too_large', { cause }), timedOut: false }
    }
  } catch (error) {
    if (!controller.signal.aborted) return { kind: 'failed', failure: toFailure(error), cause: error, timedOut: false }
  } finally {
    clearTimeout(timer)
    clearTimeout(grace)
    outer.removeEventListener('abort', stop)
  }
  if (controller.signal.reason !== TIMED_OUT) return { kind: 'aborted', reason: controller.signal.reason as unknown }
  const cause = new Error(`${definition.name} ran longer than ${String(timeoutMs)} ms`)
  return { kind: 'failed', failure: failureOf('task_timeout'), cause: httpError('task_timeout', { cause }), timedOut: true }
}

const STOPPED = Symbol('stopped')
const TIMED_OUT = new Error('The task ran longer than it may')

async function execute(definition: AnyTaskDefinition, rawInput: unknown, context: TaskContext): Promise<unknown> {
  return definition.run(await toInput(definition, rawInput), context)
}

/**
 * Judges input; throws `invalid_input` with pointers when the schema refuses it. What comes out is what this
 * definition's `run` and `check` take: `never` is how that is said where the type is not known.
 */
export async function toInput(definition: AnyTaskDefinition, rawInput: unknown): Promise<never> {
  if (!definition.input) return rawInput as never
  const judged = validate(definition.input, rawInput)
  const outcome = judged instanceof Promise ? await judged : judged
  if ('details' in outcome) throw httpError('invalid_input', { details: outcome.details })
  return outcome.value as never
}
