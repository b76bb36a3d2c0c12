import type { TaskEngine } from '../../engine/engine.js'
import type { StoredTask, TaskRef } from '../../engine/task.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import {
  bytes, duration, flag, func, hasMethod, oneOf, readOptions, text, timer, value, whole, type OptionTable,
} from '../../runtime/options.js'
import { isSchema, type Schema } from '../../schema/schema.js'
import type { TaskContext } from './run-context.js'
import { isAsks, type Asks } from './asks.js'
import type { JsonForm, JsonSafe } from './json-values.js'
import { EXTERNAL, type ExternalResource } from './external-resource.js'
import type { FailedWorkTask } from './failed-work.js'
import type { Schedule } from './schedule.js'

/** Delay between attempts. */
export interface Backoff {
  readonly type: 'fixed' | 'exponential'
  /** Delay before the second attempt in milliseconds. `exponential` doubles it each time. */
  readonly delayMs: number
  /** Maximum delay in milliseconds. Default: one hour. */
  readonly maxDelayMs?: number
  /** Random share of the delay, 0 to 1, so that retries of many tasks do not coincide. Default 0. */
  readonly jitter?: number
}

/** The settings of one kind of work that do not depend on its types. Times are in milliseconds. */
export interface TaskSettings {
  /**
   * Time limit of one run.
   *
   * Then its signal aborts, and the run has failed (`task_timeout`).
   * @default 600_000
   */
  readonly timeoutMs?: number
  /**
   * Maximum number of runs.
   *
   * `permanent(error)` ends the attempts, and so does an error for clients below 500 (except 408,
   * 425 and 429).
   *
   * Errors for clients are an `HttpError`, or an error of NestJS, http-errors or Boom.
   * @default 1
   */
  readonly attempts?: number
  /** Pause between attempts. Default: exponential from 1 second, half of it random. */
  readonly backoff?: Backoff
  /**
   * Pool that runs the tasks, one of `pools` of `createTasks`.
   *
   * Each pool has its own concurrency.
   * @default 'default'
   */
  readonly pool?: string
  /**
   * Order among the waiting tasks of its pool: 0 to 1,000,000. Tasks with a lower number start
   * first.
   *
   * A task with a high number may wait as long as tasks with lower numbers arrive.
   * @default 0
   */
  readonly priority?: number
  /** Time for which a finished task is kept, in milliseconds. Default: that of `createTasks`. */
  readonly retentionMs?: number
  /**
   * Time for which a failed task is kept, in milliseconds. Default: that of `createTasks`, otherwise
   * `retentionMs`.
   */
  readonly failedRetentionMs?: number
  /**
   * Maximum number of unfinished tasks of this kind for one owner. Default: for requests, 100
   * unfinished tasks of all kinds without `maxPerOwner` together; for your own calls of `submit`,
   * no limit.
   *
   * More get a 429 `too_many_tasks`. `Infinity`: no limit.
   *
   * A client without an owner counts by its principal, or by its network address. `tasks.submit`
   * without `owner` is not counted.
   */
  readonly maxPerOwner?: number
  /**
   * Maximum number of tasks of this kind that run for one owner at the same time, in all processes.
   * Default: no limit.
   *
   * The others wait.
   *
   * Clients without an owner count as for `maxPerOwner`. Synchronous requests for such work become
   * tasks, which this limit counts.
   */
  readonly maxRunningPerOwner?: number
  /** `false` if only this process can do the work: `createTasks` then rejects shared engines. */
  readonly shared?: boolean
  /**
   * `true` if `run` writes files. `createTasks` then needs `blobs`.
   *
   * A synchronous request becomes a task: its response has the result, and `Location` names the
   * task with the files.
   * @default false
   */
  readonly files?: boolean
  /**
   * Keeps the files that a run has finished if its task fails or is cancelled. Needs `files: true`.
   *
   * The owner gets them until a later run has written a file. Each file costs one more write of the
   * task.
   * @default false
   */
  readonly partialFiles?: boolean
  /** Maximum size of all files of one run, in bytes. Default: that of `createTasks`. */
  readonly maxFileBytes?: number
  /**
   * Version of the work, 1 to 64 characters. A checkpoint of another version is dropped. Default:
   * none.
   *
   * When it is dropped, `onError` gets `checkpoint_dropped`. Change the version if the meaning of
   * the checkpoint changes.
   */
  readonly version?: string
  /**
   * Definition of a task that is made when a task of this kind fails. Its input is `FailedWork`.
   * Default: none.
   *
   * For an alert, a compensation or a dead letter.
   *
   * The write that fails the task stores it, so it survives the process, and is made once for each
   * failure. Only operators see it. A cancel is no failure. A synchronous request becomes a task.
   */
  readonly onFailed?: FailedWorkTask
}

/**
 * Options of `defineTask`. `I` is the input of `run` (the output of the schema), `R` its result, `C`
 * its context, `In` what clients submit (the input of the schema), `Out` the output of the schema of
 * the result, `P` the value of the checkpoint, `A` the schemas of answers.
 */
export interface TaskOptions<
  I, R, C = unknown, In = I, Out = unknown, N extends string = string, P = unknown, A = unknown,
> extends TaskSettings {
  /** Unique name of the kind of work, for lists and logs: 1 to 64 of `A-Z a-z 0-9 . _ -`. */
  readonly name: N
  /** Validates and transforms the input before the task is accepted, and types `run`. Default: any JSON. */
  readonly input?: Schema<I, In>
  /** Checks a business rule on valid input before the 202. Throws an `HttpError`, usually a 422. */
  readonly check?: (input: I) => MaybePromise<void>
  /**
   * Does the work. May be called again after a failure or a crash, so make it idempotent. The
   * result is stored as JSON.
   *
   * Clients see an `HttpError` as it is, and an error below 500 of NestJS, http-errors or Boom by
   * its status and message. Any other error is masked as `task_failed` and goes to `onError`.
   */
  readonly run: (input: I, context: TaskContext<C, P, A>) => MaybePromise<R & JsonSafe<R>>
  /** Types the result for clients and describes it in the OpenAPI document. It is not checked. */
  readonly output?: Schema<Out>
  /**
   * Schema of the value that `checkpoint.save` stores for a later run. Default: runs save nothing.
   *
   * If it rejects the stored value, `onError` gets `checkpoint_dropped`, and the task starts over.
   *
   * It types `checkpoint.value`, and validates it when it is read.
   */
  readonly checkpoint?: Schema<P & JsonSafe<P>>
  /**
   * Schemas of the answers that `ask` of `run` waits for, by names of 1 to 64 of `A-Z a-z 0-9 . _
   * -`, a letter first. Default: runs ask nothing.
   *
   * Each process can then check an answer. A synchronous request becomes a task: if it asks, the
   * response is a 202 with its questions.
   */
  readonly asks?: A & Asks
  /**
   * Stops what a run has started in another system under its `workId`. Default: none.
   *
   * Called after a cancel, after `timeoutMs`, and when `memory()` closes.
   *
   * May be called twice, and for work that was not started. Its errors go to `onError`. A
   * synchronous request becomes a task.
   */
  readonly cancel?: (workId: string) => unknown
  /** External resources that the task owns, such as an upload. Default: none. */
  readonly external?: ExternalResource<I>
  /** Submits tasks at certain times: `cron('0 3 * * *')` of `longhaul/cron`. Default: none. */
  readonly schedule?: unknown extends C ? Schedule<NoInfer<In>> : never
}

/** The types of one kind of work, for the compiler only. */
export interface TaskTypes<N = string, In = unknown, R = unknown, C = unknown> {
  readonly name: N
  /** The submitted value: the input of the schema. */
  readonly input: In
  /** The result of `run` as clients see it. */
  readonly result: R
  readonly context: C
}

type WithDefault = 'timeoutMs' | 'attempts' | 'backoff' | 'pool' | 'priority'

/** One kind of work, checked and with its defaults filled in. Made by `defineTask`. */
export interface TaskDefinition<
  I = unknown, R = unknown, C = unknown, In = I, N extends string = string, P = never, A = unknown,
> extends Omit<TaskSettings, WithDefault>, Required<Pick<TaskSettings, WithDefault>>,
  Pick<TaskOptions<I, R, C, In, unknown, N, P>, 'input' | 'check' | 'cancel' | 'external'> {
  readonly name: N
  readonly schedule?: Schedule
  /** Does the work. */
  readonly run: (input: I, context: TaskContext<C, P, A>) => MaybePromise<R>
  readonly asks?: Asks
  readonly output?: Schema
  readonly checkpoint?: Schema<P>
  /** For the compiler only: never set. */
  readonly '~types'?: TaskTypes<N, In, JsonForm<R>, C>
}

/**
 * A definition whose types are not known. Its functions are methods, because TypeScript compares
 * parameters of methods in both directions, so every definition fits. Pass validated input only.
 */
export interface AnyTaskDefinition
  extends Omit<TaskDefinition, 'input' | 'check' | 'run' | 'external' | 'checkpoint' | '~types'> {
  readonly input?: Schema
  readonly checkpoint?: Schema
  /** Tests business rules on valid input. */
  check?(input: unknown): MaybePromise<void>
  /** Does the work. */
  run(input: unknown, context: TaskContext): unknown
  /**
   * Does the work in place of `run`, on the tasks of all owners. Only operators and the application submit it.
   * @internal
   */
  runForOperators?(tasks: OtherTasks, input: unknown, context: TaskContext): unknown
  readonly external?: Omit<ExternalResource<never>, 'of'> & {
    /** Returns the name of the resource, or the names of several. */
    of(input: unknown): string | readonly string[],
  }
  /** For the compiler only: never set. */
  readonly '~types'?: TaskTypes
}

export const DEFAULT_POOL = 'default'
export const BACKOFF: Backoff = { type: 'exponential', delayMs: 1000, jitter: 0.5 }
const HOUR_MS = 3_600_000

/** A final task as it was listed. Another task with its id has another `birth`, and a retry another `round`. */
export interface ListedTask extends TaskRef {
  readonly round: string | undefined
}

/** Access to the tasks among which a task runs. */
export interface OtherTasks {
  readonly engine: TaskEngine
  /**
   * Changes a task of any owner. `retry` does so once for each key. Returns the code of the reason why the
   * task was not changed, or rejects with the error.
   */
  readonly change: (
    action: 'retry' | 'cancel' | 'forget', task: ListedTask, key: string,
  ) => Promise<string | undefined>
  /** Reports to `onError`. */
  readonly report: (error: unknown, task: Pick<StoredTask, 'id' | 'name' | 'attempt'>) => void
}

/** The Redis engine keeps it in seven digits. */
export const PRIORITY = whole({ max: 1_000_000 })
export const TASK_NAME = text({ pattern: /^[A-Za-z0-9._-]{1,64}$/, expects: '1 to 64 of A-Z a-z 0-9 . _ -' })
export const POOL_NAME = text({ pattern: /^[A-Za-z0-9_-]{1,64}$/, expects: '1 to 64 of A-Z a-z 0-9 _ -' })
const SCHEMA = value<never>('a Standard Schema (wrap a JSON Schema in jsonSchema())', isSchema)

const BACKOFF_OPTIONS = {
  type: oneOf(['fixed', 'exponential'], { required: true }), delayMs: duration({ required: true }),
  maxDelayMs: duration(),
  jitter: value<number>('a number from 0 to 1', (given) => typeof given === 'number' && given >= 0 && given <= 1),
} satisfies OptionTable<Backoff>
const OPTIONS = {
  name: { ...TASK_NAME, required: true },
  input: SCHEMA, check: func(), run: func({ required: true }), cancel: func(), output: value(),
  timeoutMs: timer({ default: 600_000 }), attempts: whole({ min: 1, default: 1 }),
  backoff: value('an object', (given) => typeof given === 'object', { default: BACKOFF }),
  pool: { ...POOL_NAME, default: DEFAULT_POOL }, priority: { ...PRIORITY, default: 0 },
  retentionMs: duration({ min: 1000 }), failedRetentionMs: duration({ min: 1000 }),
  maxPerOwner: whole({ min: 1, max: Number.MAX_SAFE_INTEGER, infinity: true }),
  maxRunningPerOwner: whole({ min: 1 }),
  asks: value('an object of Standard Schemas by their names', isAsks),
  external: value(), shared: flag(), files: flag(), partialFiles: flag(), maxFileBytes: bytes(), checkpoint: SCHEMA,
  onFailed: value('a definition: what defineTask returned', hasMethod('run')),
  version: text({ pattern: /^.{1,64}$/s, expects: 'a string of 1 to 64 characters' }),
  schedule: value('what cron() of longhaul/cron returns', hasMethod('begin')),
} satisfies OptionTable<TaskOptions<never, never>>

/**
 * Defines one kind of work. The types are inferred: the input of `run` from the schema, the result
 * from `output` or from `run`. A result that JSON cannot carry does not compile.
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
 * @throws {TypeError} An option is unknown or not valid.
 */
export function defineTask<
  I = unknown, R extends Out = never, C = unknown, In = I, Out = unknown, N extends string = string,
  P = never, A = unknown,
>(
  options: TaskOptions<I, R, C, In, Out, N, P, A>,
): TaskDefinition<I, unknown extends Out ? R : Out, C, In, N, P, A> {
  const where = `defineTask(${JSON.stringify(options?.name)})`
  const definition = readOptions(where, options as unknown as TaskOptions<never, never>, OPTIONS)
  if (options.external !== undefined) readOptions(`${where}: external`, options.external, EXTERNAL)
  checkBackoff(where, definition.backoff)
  if (definition.partialFiles && !definition.files) throw new TypeError(`${where}: partialFiles needs files: true`)
  if (definition.schedule !== undefined && definition.name.startsWith('.')) {
    throw new TypeError(`${where}: the name of a task with a schedule must not begin with a dot`)
  }
  // `output` describes what `run` returns, and is not checked at run time.
  return definition as unknown as TaskDefinition<I, unknown extends Out ? R : Out, C, In, N, P, A>
}

/** Default `attempts` of idempotent work: with `BACKOFF`, 31 to 63 seconds. */
export const REPEATABLE_ATTEMPTS = 7

/** Returns the delay in milliseconds after `failed` failed attempts, from 1. */
export function retryDelay(
  backoff: Backoff, failed: number, random: () => number = Math.random,
): number {
  const growth = backoff.type === 'exponential' ? 2 ** Math.min(failed - 1, 52) : 1
  const delay = Math.min(backoff.delayMs * growth, backoff.maxDelayMs ?? HOUR_MS)
  return Math.round(delay * (1 - (backoff.jitter ?? 0) * random()))
}

/** @throws {TypeError} A property is missing or out of range. */
export function checkBackoff(where: string, backoff: Backoff): void {
  readOptions(`${where}: backoff`, backoff, BACKOFF_OPTIONS)
}

/** The definitions that `createTasks` is given. */
export type Definitions = readonly AnyTaskDefinition[]

type TypesOf<T extends AnyTaskDefinition> = NonNullable<T['~types']>

/** The name of a definition: `NameOf<typeof report>` is `'report'`. */
export type NameOf<T extends AnyTaskDefinition> = TypesOf<T>['name']

/** The input that `submit` takes for a definition. */
export type InputOf<T extends AnyTaskDefinition> = TypesOf<T>['input']

/** The context that `run` of a definition needs. `unknown` if it needs none. */
export type ContextOf<T extends AnyTaskDefinition> = TypesOf<T>['context']

/** The result of a completed task: the JSON form of what `run` returned; `null` for nothing. */
export type ResultOf<T extends AnyTaskDefinition> = TaskResult<TypesOf<T>['result']>

type TaskResult<R> = [R] extends [void] ? null : R
