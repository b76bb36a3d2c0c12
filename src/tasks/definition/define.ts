import type { MaybePromise } from '../../runtime/maybe-promise.js'
import type { Backoff } from '../../queues/queue.js'
import { isSchema, type Schema } from '../../schema/schema.js'
import { checkBounds, COUNT, KEPT, PAUSE, TIMER } from './bounds.js'

/** What a running task is told, and how it speaks back. */
export interface TaskContext {
  /** The task's id; `undefined` while the work runs for a direct (synchronous) answer. */
  readonly taskId: string | undefined
  /** From 1; more than 1 when an earlier run failed or its process died. */
  readonly attempt: number
  readonly lastAttempt: boolean
  /** Aborts on cancel, time-out, shutdown, and, for a direct answer, when the client has gone. */
  readonly signal: AbortSignal
  /** Who submitted the task, when the endpoint scopes tasks by owner. */
  readonly owner: string | undefined
  /** The request context that travelled with the job, as JSON. */
  readonly context: unknown
  /**
   * Reports how far the work is. Cheap to call often: writes are spaced out, the last one wins, and
   * a failed write never fails the task.
   */
  readonly progress: (done: number, total?: number, message?: string) => void
}

/** Something outside of the record that a task needs, and that goes when the task has ended. */
export interface Kept<I> {
  /** Names it, given the input as it was submitted. The name is part of the record. */
  readonly of: (input: I) => string
  /**
   * Takes it away. Called once the task has ended, however it ended, also when it was cancelled
   * before it ran; it may be called again. What it throws is dropped. A process may die before the
   * call, so let the thing expire by itself as well.
   */
  readonly release: (name: string) => unknown
}

/** What a team says about one kind of work. Times are in milliseconds. */
export interface TaskOptions<I, R> {
  /** Names the kind of work, in jobs, records and logs: 1 to 64 of `A-Z a-z 0-9 . _ -`. */
  readonly name: string
  /**
   * Judges the input before it is accepted (400 with pointers) and types `run`. Default: anything
   * goes.
   */
  readonly input?: Schema<I>
  /** A business rule on valid input; throws an `HttpError`, usually a 422. Runs before the 202. */
  readonly check?: (input: I) => MaybePromise<void>
  /**
   * Does the work. May be called again for the same task after a failure or a crash, so make it
   * repeatable. Its value has to survive JSON. An `HttpError` shows to the client; anything else
   * that is thrown is masked as `task_failed` and handed to `onError`.
   */
  readonly run: (input: I, context: TaskContext) => MaybePromise<R>
  /** Describes the result in the OpenAPI document. */
  readonly output?: Schema<R>
  /**
   * One run may take this long; then its signal aborts and it has failed (`task_timeout`). Default
   * 10 minutes.
   */
  readonly timeoutMs?: number
  /**
   * Runs in all. Default 1. An error marked by `permanent()`, and an `HttpError` below 500, end the
   * tries.
   */
  readonly attempts?: number
  /** Pause between two attempts. Default: exponential from 1 s, half of it random. */
  readonly backoff?: Backoff
  /** How long the record is kept after the end. Default: that of `createTasks`. */
  readonly retentionMs?: number
  /**
   * Unfinished tasks of this kind that one owner may have; more are answered with 429
   * `too_many_tasks`. Clients without an owner are counted by their network address. The host's own
   * tasks (`tasks.submit` without `owner`) are not counted. Default: no limit.
   */
  readonly maxPerOwner?: number
  /** What lies elsewhere for the task and goes with it: a spooled upload, say. Default: nothing. */
  readonly keeps?: Kept<I>
  /**
   * `false`: the work needs something that only this process has, so `createTasks` refuses it
   * together with a queue that spans processes.
   */
  readonly shared?: boolean
}

/** One kind of work, checked and with its defaults filled in. Made by `defineTask`. */
export interface TaskDefinition<I = unknown, R = unknown> extends TaskOptions<I, R> {
  readonly timeoutMs: number
  readonly attempts: number
  readonly backoff: Backoff
}

/**
 * A definition whose input and result are not known here: what registries hold. `run` and `check`
 * take `never`, so that every definition fits and nobody calls them without having judged the
 * input.
 */
export interface AnyTaskDefinition extends Omit<TaskDefinition<never>, 'input' | 'output'> {
  readonly input?: Schema
  readonly output?: Schema
}

const KNOWN = {
  name: 0, input: 0, check: 0, run: 0, output: 0, timeoutMs: TIMER, attempts: COUNT, backoff: 0, retentionMs: KEPT, maxPerOwner: COUNT, keeps: 0,
  shared: 0,
} satisfies Record<keyof TaskOptions<never, never>, unknown>
const BACKOFF = { type: 0, delayMs: PAUSE, maxDelayMs: PAUSE, jitter: [0, 1] } satisfies Record<keyof Backoff, unknown>

const NAME = /^[A-Za-z0-9._-]{1,64}$/

/**
 * Defines one kind of work; types flow from the schema through `run` to the result.
 * Throws a `TypeError` when an option makes no sense.
 */
export function defineTask<I = unknown, R = unknown>(options: TaskOptions<I, R>): TaskDefinition<I, R> {
  const where = `defineTask(${JSON.stringify(options?.name)})`
  const fault = (what: string) => new TypeError(`${where}: ${what}`)
  checkBounds(where, options, KNOWN)
  const { name, run, input, timeoutMs = 600_000, attempts = 1, backoff = { type: 'exponential', delayMs: 1000, jitter: 0.5 } } = options
  if (typeof name !== 'string' || !NAME.test(name)) throw fault('name must be 1 to 64 of A-Z a-z 0-9 . _ -')
  if (typeof run !== 'function') throw fault('run must be a function')
  if (input !== undefined && !isSchema(input)) throw fault('input must be a Standard Schema; wrap a JSON Schema in jsonSchema()')
  checkBounds(`${where}: backoff`, backoff, BACKOFF)
  if (!['fixed', 'exponential'].includes(backoff.type) || backoff.delayMs === undefined) throw fault('backoff needs delayMs, and type fixed or exponential')
  return { ...options, timeoutMs, attempts, backoff }
}
