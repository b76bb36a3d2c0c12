import type { MaybePromise } from '../../runtime/maybe-promise.js'
import { MAX_PRIORITY } from './priority.js'
import { isPoolName } from './pool-name.js'
import { BACKOFF, type Backoff } from './backoff.js'
import { isSchema, type Schema } from '../../schema/schema.js'
import type { Checkpoint } from './checkpoint.js'
import { checkBounds, COUNT, KEPT, LIMIT, PAUSE, SIZE, TIMER } from './bounds.js'
import type { TaskFiles } from './files.js'
import type { JsonForm, JsonSafe } from './json-form.js'
import { checkExternal, type ExternalResource } from './external-resource.js'

/**
 * The second argument of `run`. `C` is the type of `context`: a `run` that declares one, as in
 * `run: (input, { context }: TaskContext<{ locale: string }>) => …`, is only submitted with it. `P`
 * is the type of the checkpoint.
 */
export interface TaskContext<C = unknown, P = unknown> {
  /** The task's id. `undefined` while the work runs for a direct (synchronous) answer. */
  readonly taskId: string | undefined
  /** The number of this run, from 1. More than 1 if an earlier run failed or its process died. */
  readonly attempt: number
  readonly lastAttempt: boolean
  /**
   * Aborts on cancel, time-out and shutdown. For a direct answer, also when the client disconnects.
   *
   * A task with a `checkpoint` on Redis or PostgreSQL is notified when the shutdown begins: the
   * reason is a `WorkerClosingError`. The run may save and end within the drain time. Another
   * process then continues the task at once, and no attempt is used.
   */
  readonly signal: AbortSignal
  /** The owner of the task, if it has one. */
  readonly owner: string | undefined
  /**
   * The context of the endpoint or of the submitting code, as JSON. `undefined` if there is none.
   */
  readonly context: C
  /**
   * Reports how far the work is. Cheap to call often: writes are spaced out, the last one wins, and
   * a failed write never fails the task.
   */
  readonly progress: (done: number, total?: number, message?: string) => void
  /** Writes files of the result. The definition needs `files: true`. */
  readonly files: TaskFiles
  /**
   * Value that an earlier run of this task has saved, and the function that saves the next one.
   * Needs the option `checkpoint` of `defineTask`. A direct answer has no later run: `save` checks
   * the value and keeps nothing.
   */
  readonly checkpoint: Checkpoint<P>
}

/** The settings of one kind of work that do not depend on its types. Times are in milliseconds. */
export interface TaskSettings {
  /**
   * Time limit of one run. Then its signal aborts, and the run has failed (`task_timeout`).
   * @default 600_000
   */
  readonly timeoutMs?: number
  /**
   * Maximum number of runs. An error marked by `permanent()`, and an `HttpError` below 500 (except
   * 408, 425 and 429), end the attempts.
   * @default 1
   */
  readonly attempts?: number
  /** Pause between attempts. Default: exponential from 1 second, half of it random. */
  readonly backoff?: Backoff
  /**
   * Pool that runs the tasks, one of `pools` of `createTasks`. Each pool has its own concurrency.
   * @default 'default'
   */
  readonly pool?: string
  /**
   * Order among the waiting tasks of its pool: 0 to 1,000,000. Tasks with a lower number start
   * first. A task with a high number may wait as long as tasks with lower numbers arrive.
   * @default 0
   */
  readonly priority?: number
  /**
   * Time for which a finished task is kept, in milliseconds. Default: that of `createTasks`.
   */
  readonly retentionMs?: number
  /**
   * Maximum number of unfinished tasks of this kind for one owner. More are answered with 429
   * `too_many_tasks`. A client without an owner counts by its principal, or by its network address.
   * The host's own tasks (`tasks.submit` without `owner`) are not counted. Default: for requests, 100 unfinished
   * tasks of all kinds without `maxPerOwner` together; for your own calls of `submit`, no limit.
   * `Infinity`: no limit.
   */
  readonly maxPerOwner?: number
  /**
   * `false` if the work needs something that only this process has. Then `createTasks` refuses it
   * together with an engine that several processes share.
   */
  readonly shared?: boolean
  /**
   * `true` if `run` writes files. `createTasks` then needs `blobs`. A request for a direct answer
   * becomes a task, too: its answer has the result, and `Location` names the task with the files.
   *
   * @default false
   */
  readonly files?: boolean
  /**
   * Maximum size of all files of one run, in bytes. Beyond it the task fails
   * (`result_files_too_large`). Default: that of `createTasks`.
   */
  readonly maxFileBytes?: number
  /**
   * Version of the work, 1 to 64 characters. A checkpoint that another version has saved is dropped
   * with `checkpoint_dropped` to `onError`. Change it if the meaning of the checkpoint changes.
   * Default: none.
   */
  readonly version?: string
}

/**
 * Options of `defineTask`.
 *
 * - `I`: the input of `run`, which is the output of the schema
 * - `R`: the result of `run`
 * - `C`: the context that `run` needs
 * - `In`: the input of the schema, which is what clients submit
 * - `Out`: the output of the schema of the result
 * - `P`: the value of the checkpoint
 */
export interface TaskOptions<
  I, R, C = unknown, In = I, Out = unknown, N extends string = string, P = unknown,
> extends TaskSettings {
  /**
   * Name of the kind of work, in stored tasks, lists and logs: 1 to 64 of `A-Z a-z 0-9 . _ -`.
   * Unique.
   */
  readonly name: N
  /**
   * Validates and transforms the input before it is accepted (400 with pointers), and types `run`.
   * Default: every JSON value is accepted.
   */
  readonly input?: Schema<I, In>
  /** A business rule on valid input. Throws an `HttpError`, usually a 422. Runs before the 202. */
  readonly check?: (input: I) => MaybePromise<void>
  /**
   * Does the work. May be called again for the same task after a failure or a crash, so make it
   * repeatable. Its result is stored as JSON. The client sees an `HttpError` as it is. Any other
   * error is masked as `task_failed` and goes to `onError`.
   */
  readonly run: (input: I, context: TaskContext<C, P>) => MaybePromise<R & JsonSafe<R>>
  /** Types the result for clients and describes it in the OpenAPI document. It is not checked. */
  readonly output?: Schema<Out>
  /**
   * Schema of the value that `checkpoint.save` stores, so that a later run continues where an
   * earlier one stopped. It types `checkpoint.value`, and validates the value when it is read. A
   * refused value is dropped, `onError` gets `checkpoint_dropped`, and the task starts over.
   * Default: runs save nothing, and every run starts over.
   */
  readonly checkpoint?: Schema<P & JsonSafe<P>>
  /**
   * External resource that the task owns, such as an upload. It is released when the task is
   * completed, and removed when the task is deleted, expires or is evicted. A failed or cancelled
   * task keeps it for a retry. Default: nothing.
   */
  readonly external?: ExternalResource<I>
}

/** The types of one kind of work. No value has them: they exist for the compiler only. */
export interface TaskTypes<N = string, In = unknown, R = unknown, C = unknown> {
  /** The name of the definition. */
  readonly name: N
  /** The submitted value: the input of the schema. */
  readonly input: In
  /** The result of `run` as clients see it, without the message that may be added. */
  readonly result: R
  /** The `context` that `run` needs. */
  readonly context: C
}

/** One kind of work, checked and with its defaults filled in. Made by `defineTask`. */
export interface TaskDefinition<
  I = unknown, R = unknown, C = unknown, In = I, N extends string = string, P = never,
> extends TaskSettings {
  readonly name: N
  readonly input?: Schema<I, In>
  /** Tests business rules on valid input. */
  readonly check?: (input: I) => MaybePromise<void>
  /** Does the work. */
  readonly run: (input: I, context: TaskContext<C, P>) => MaybePromise<R>
  readonly output?: Schema
  readonly checkpoint?: Schema<P>
  readonly external?: ExternalResource<I>
  readonly timeoutMs: number
  readonly attempts: number
  readonly backoff: Backoff
  /** For the compiler only: never set. */
  readonly '~types'?: TaskTypes<N, In, JsonForm<R>, C>
}

/**
 * A definition whose types are not known: what registries hold. Its functions are methods, because
 * TypeScript compares parameters of methods in both directions, so every definition fits. Call them
 * with validated input only.
 */
export interface AnyTaskDefinition
  extends Omit<TaskDefinition, 'input' | 'check' | 'run' | 'external' | 'checkpoint' | '~types'> {
  readonly input?: Schema
  readonly checkpoint?: Schema
  /** Tests business rules on valid input. */
  check?(input: unknown): MaybePromise<void>
  /** Does the work. */
  run(input: unknown, context: TaskContext): unknown
  readonly external?: Omit<ExternalResource<never>, 'of'> & {
    /** Returns the name of the resource. */
    of(input: unknown): string,
  }
  /** For the compiler only: never set. */
  readonly '~types'?: TaskTypes
}

const KNOWN = {
  name: 0, input: 0, check: 0, run: 0, output: 0, timeoutMs: TIMER, attempts: COUNT, backoff: 0,
  pool: 0, priority: [0, MAX_PRIORITY, true], retentionMs: KEPT, maxPerOwner: LIMIT, external: 0,
  shared: 0, files: 0, maxFileBytes: SIZE,
  checkpoint: 0, version: 0,
} satisfies Record<keyof TaskOptions<never, never>, unknown>
const BACKOFF_NAMES = {
  type: 0, delayMs: PAUSE, maxDelayMs: PAUSE, jitter: [0, 1],
} satisfies Record<keyof Backoff, unknown>

const NAME = /^[A-Za-z0-9._-]{1,64}$/

/**
 * Defines one kind of work. All types are inferred: the input of `run` from the schema, the result
 * from `output` or from what `run` returns. A result that JSON cannot carry does not compile.
 *
 * @example
 * import { z } from 'zod'
 *
 * const report = defineTask({
 *   name: 'report',
 *   input: z.object({ year: z.coerce.number().int() }),
 *   run: async ({ year }, { progress, signal }) => {
 *     progress(0, 12)
 *     return { message: `The report of ${year} is ready.` }
 *   },
 * })
 *
 * @throws {TypeError} an option is unknown or makes no sense
 */
export function defineTask<
  I = unknown, R extends Out = never, C = unknown, In = I, Out = unknown, N extends string = string,
  P = never,
>(
  options: TaskOptions<I, R, C, In, Out, N, P>,
): TaskDefinition<I, unknown extends Out ? R : Out, C, In, N, P> {
  const where = `defineTask(${JSON.stringify(options?.name)})`
  const fault = (what: string) => new TypeError(`${where}: ${what}`)
  checkBounds(where, options, KNOWN)
  const { name, run, input, timeoutMs = 600_000, attempts = 1, backoff = BACKOFF } = options
  if (typeof name !== 'string' || !NAME.test(name)) {
    throw fault('name must be 1 to 64 of A-Z a-z 0-9 . _ -')
  }
  if (options.pool !== undefined && !isPoolName(options.pool)) {
    throw fault('pool must be 1 to 64 of A-Z a-z 0-9 _ -')
  }
  if (typeof run !== 'function') throw fault('run must be a function')
  if (input !== undefined && !isSchema(input)) {
    throw fault('input must be a Standard Schema; wrap a JSON Schema in jsonSchema()')
  }
  if (options.checkpoint !== undefined && !isSchema(options.checkpoint)) {
    throw fault('checkpoint must be a Standard Schema; wrap a JSON Schema in jsonSchema()')
  }
  if (options.external !== undefined) checkExternal(where, options.external)
  const { version = '-' } = options
  if (typeof version !== 'string' || version.length < 1 || version.length > 64) {
    throw fault('version must be a text of 1 to 64 characters')
  }
  checkBounds(`${where}: backoff`, backoff, BACKOFF_NAMES)
  if (!['fixed', 'exponential'].includes(backoff.type) || backoff.delayMs === undefined) {
    throw fault('backoff needs delayMs, and type fixed or exponential')
  }
  // `output` describes what `run` returns, and is not checked at run time.
  const definition: TaskDefinition<I, R, C, In, N, P> = {
    ...options, timeoutMs, attempts, backoff,
  }
  return definition as TaskDefinition<I, unknown extends Out ? R : Out, C, In, N, P>
}
