import { httpError } from '../../http/errors.js'
import type { HttpRequest, Handler } from '../../http/exchange.js'
import { findRequester, OPERATORS, type OwnerOption, type Requester } from '../../http/requester.js'
import {
  bytes, flag, func, hasMethod, oneOf, readOptions, timer, value, whole, type Filled, type OptionTable,
} from '../../runtime/options.js'
import { noCallbacks } from '../core/task-core.js'
import type { TaskCore } from '../core/task-core.js'
import { isIn, type Scope } from '../record/details.js'
import { coreOf, type Tasks } from '../tasks.js'
import { encodedBodies, taskFormat, type EncodedBodies, type TaskFormat } from './formats.js'
import { StatusPath } from './status-path.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import type { Transaction } from '../../engine/engine.js'
import type { AnyTaskDefinition, ContextOf, Definitions, InputOf } from '../definition/define.js'
import type { StoredTask } from '../../engine/task.js'

/** Options of `taskEndpoints`. */
export interface TaskEndpointsOptions<C = unknown> {
  /** Path of the status resource below the mount path, with `{id}` of the task: `/tasks/{id}`. */
  readonly statusPath: string
  /** The body of responses: `taskFormat` (default), `jobFormat`, or your own. */
  readonly format?: TaskFormat
  /**
   * The owner of the tasks: a function, `'principal'` or `'anyone'`. Others get the response of an
   * unknown task.
   *
   * Required, because each choice is wrong for some servers:
   *
   * - A function returns the owner's id: `owner: ({ context }) => context.user?.id`. For
   *   `undefined`, the request gets 401 `unauthorized`, unless `anonymous` is `true`.
   * - `'principal'`: the subject that `authenticate` or your framework (`context.principal`) has
   *   found. A request without one gets 401 `unauthorized`.
   * - `'anyone'`: tasks have no owner. Whoever knows the id (128 random bits) may see and cancel
   *   the task.
   *
   * The 401 of a function has a `WWW-Authenticate` header only if `authenticate` is in front, or if
   * the function throws `httpError('unauthorized', { headers })`. Any other value than a non-empty
   * string is a `TypeError`: the client gets 500. With `'anyone'`, an Idempotency-Key belongs to
   * the subject of the principal, or else to the credentials as they were sent: `Authorization`,
   * `Cookie`, `Proxy-Authorization`, `X-Api-Key`. `maxPerOwner` counts clients without an owner by
   * the network address of their connection.
   */
  readonly owner: OwnerOption<C>
  /**
   * `true`: if the function `owner` returns `undefined`, the client creates and sees tasks without an
   * owner. Default `false`: such a request gets a 401.
   */
  readonly anonymous?: boolean
  /** Returns the part of the request that `run` receives as `context`, as JSON. Default: none. */
  readonly context?: (request: HttpRequest<C>) => unknown
  /**
   * The property of the body with the callback URL, such as `'callbackUrl'`, or a function: `(body)
   * => body.hooks.done`. Requires `callbacks` of `createTasks`. Default: no callbacks.
   *
   * A URL that cannot be called gets a 400, and so does one in a synchronous request.
   */
  readonly callback?: string | FindCallback<C>
  /**
   * Finds the start in the body: `(body) => body.startAt`. Default: now.
   *
   * A client sends a time of RFC 3339 (`2026-12-24T18:00:00Z`), or a duration without years and
   * months (`PT90M`, `P1D`).
   *
   * Such a request gets 202, with any preference. Errors: 400 `invalid_start_at`; 422
   * `start_at_out_of_range` for a time in the past or more than a year ahead, by the clock of the
   * engine.
   */
  readonly startAt?: FindStart<C>
  /**
   * Effect of a DELETE of the status resource. `cancel`: cancels an unfinished task. `forget`: also
   * deletes a final one. Default `cancel`.
   *
   * With `cancel`, a final task gets a 409 `task_already_final`. `forget` needs the `ETag` of the
   * status in `If-Match`.
   *
   * With `forget`, the response to a deletion is a 204; without the tag a 428
   * `precondition_required`, with an old one a 412. With both, a repeated DELETE of a task that is
   * cancelled gets 200 again.
   */
  readonly remove?: 'cancel' | 'forget'
  /**
   * Maximum time of `Prefer: wait=N`, in seconds. Default 30.
   *
   * A longer wait ends then.
   */
  readonly maxWaitSeconds?: number
  /**
   * Maximum time of a synchronous response, in milliseconds. Default 30 000.
   *
   * Then the client gets a 503 `sync_timeout`, and the work is stopped.
   *
   * With an Idempotency-Key the work continues, and a retry gets its result.
   */
  readonly syncTimeoutMs?: number
  /** Maximum size of a body, in bytes. Default: `maxInputBytes` of the tasks. */
  readonly maxBodyBytes?: number
  /**
   * Maximum size of one owner's bodies that bulk and NDJSON handlers with `background` store for
   * their tasks, and of its resumable uploads.
   *
   * Beyond it, a request gets a 429 `too_many_bytes`; a larger body gets a 413.
   *
   * A body counts until its task is completed or gone. Clients without an owner count by network.
   * Default: a quarter of `maxBytes` of the blobs, 64 MiB in `memory()`. For blobs without
   * `maxBytes`: 16 GiB, or `maxBodyBytes` of the handler if that is more.
   */
  readonly maxBytesPerOwner?: number
  /** Options of the handler `list`. */
  readonly list?: {
    /** Further query parameters of a request, such as one that a policy reads. Default: none. */
    readonly also?: readonly string[]
  }
}

/** Finds the callback URL of a submission. `body` is the JSON body, or `{}` if that is no object. */
export type FindCallback<C = unknown> = (body: Readonly<Record<string, unknown>>, request: HttpRequest<C>) => unknown

/** Finds the start of a submission. `body` is the JSON body, or `{}` if that is no object. */
export type FindStart<C = unknown> = (body: Readonly<Record<string, unknown>>, request: HttpRequest<C>) => unknown

const isSeconds = (given: unknown): boolean => typeof given === 'number' && given >= 0 && given <= 3600

/** Entry of the option `callback` in a table of options. */
export const CALLBACK = value('the name of a property, or a function', (given) => (
  typeof given === 'function' || typeof given === 'string' && given !== ''
))

const OPTIONS = {
  statusPath: value(), owner: value(), anonymous: flag({ default: false }),
  format: value('a TaskFormat', hasMethod('toText'), {
    default: taskFormat,
  }),
  context: func(), callback: CALLBACK, startAt: func(),
  remove: oneOf(['cancel', 'forget'], { default: 'cancel' }),
  maxWaitSeconds: value('a number of seconds from 0 to 3600', isSeconds, { default: 30 }),
  syncTimeoutMs: timer({ default: 30_000 }),
  maxBodyBytes: bytes(), maxBytesPerOwner: whole({ min: 1, infinity: true }),
  list: value(),
} satisfies OptionTable<TaskEndpointsOptions>

const LIST_OPTIONS = {
  also: value('an array of names', Array.isArray),
} satisfies OptionTable<NonNullable<TaskEndpointsOptions['list']>>

type Read<C> = Filled<TaskEndpointsOptions<C>, typeof OPTIONS>

/** Lets operators use the handlers in place of owners: passed by `operatorEndpoints`. */
export interface OperatorAccess<C> {
  /** Name of the public function, for error messages. */
  readonly where: string
  /** Rejects if the request is not that of an operator. */
  readonly admit: (request: HttpRequest<C>) => Promise<void>
}

/** The option `callback`, as it is used. */
export interface CallbackSource<C> {
  readonly find: FindCallback<C>
  /** Property of the body with the URL, if it is known. */
  readonly property?: string
}

export interface EndpointSettings<C> extends Omit<Read<C>, 'callback'> {
  readonly callback: CallbackSource<C> | undefined
  readonly core: TaskCore
  readonly path: StatusPath
  readonly bodies: EncodedBodies
  /** True if a request without an owner gets a 401. */
  readonly needsOwner: boolean
  /** Throws 401 `unauthorized` if an owner is needed. */
  readonly requester: (request: HttpRequest<C>) => Requester
  /** Absent for owners. */
  readonly access: OperatorAccess<C> | undefined
  readonly maxBodyBytes: number
}

/**
 * @param access - the access of operators; `undefined` for the endpoints of owners
 * @throws {TypeError} An option is not valid.
 */
export function readSettings<C>(
  tasks: Tasks, options: TaskEndpointsOptions<C>, access?: OperatorAccess<C>,
): EndpointSettings<C> {
  const { where } = access ?? { where: 'taskEndpoints' }
  const read = readOptions(where, options, OPTIONS)
  const core = coreOf(tasks, where)
  const { context, format, list = {}, maxBodyBytes = core.settings.maxInputBytes } = read
  return {
    ...read,
    callback: readCallback(core, read.callback),
    core, maxBodyBytes, access,
    path: new StatusPath(options.statusPath, `${where}: statusPath`),
    bodies: encodedBodies(format),
    needsOwner: read.owner === 'principal' || read.owner !== 'anyone' && !read.anonymous,
    requester: access ? () => ({ kind: 'owner', owner: OPERATORS }) : findRequester(options.owner, {
      where, name: 'owner', question: 'Say to whom tasks belong.',
      anyone: 'lets everybody who knows the id of a task see and cancel it.',
      anonymous: read.anonymous,
    }),
    list: readOptions('taskEndpoints: list', list, LIST_OPTIONS),
    ...context && { context: jsonContext(context) },
  }
}

/**
 * Returns the tasks that a request may see and change. Throws 401 or 403 if the request may see no
 * tasks.
 */
export async function scopeOf<C>(
  { requester, access }: EndpointSettings<C>, request: HttpRequest<C>,
): Promise<Scope> {
  if (access === undefined) return requester(request)
  await access.admit(request)
  return 'all'
}

/**
 * Returns the owner for whom a wait for a task counts. An operator takes no places of the task's
 * owner.
 */
export function waitsAs<C>(
  { access }: EndpointSettings<C>, task: StoredTask,
): string | undefined {
  return access === undefined ? task.owner : OPERATORS
}

/** Reads a task that a request may see. Throws the 404 of the format. */
export async function findFor<C>(
  settings: EndpointSettings<C>, request: HttpRequest<C>, id: string,
): Promise<StoredTask> {
  const { requester, access } = settings
  // Without another async function, because clients poll often.
  const of = access === undefined ? requester(request) : await scopeOf(settings, request)
  return findIn(settings, id, of)
}

export async function findIn<C>(
  { core, format }: EndpointSettings<C>, id: string, of: Scope,
): Promise<StoredTask> {
  const task = await core.read(id)
  if (!task || !isIn(of, task)) throw httpError(format.notFound)
  return task
}

/** Returns the JSON form of the context, so that every run gets the same value. */
export function jsonContext<C>(
  context: (request: HttpRequest<C>) => unknown,
): (request: HttpRequest<C>) => unknown {
  return (request) => {
    const text = JSON.stringify(context(request)) as string | undefined
    return text === undefined ? undefined : JSON.parse(text) as unknown
  }
}

/** @throws {TypeError} `createTasks` has no `callbacks`. */
export function readCallback<C>(
  core: TaskCore, callback: string | FindCallback<C> | undefined,
): CallbackSource<C> | undefined {
  if (callback === undefined) return undefined
  if (!core.settings.callbacks) throw noCallbacks()
  if (typeof callback === 'function') return { find: callback }
  return { find: (body) => body[callback], property: callback }
}

/** Options of one submit endpoint, for input of type `I`. */
export interface SubmitEndpointOptions<C = unknown, I = unknown> {
  /**
   * Returns the part of the request that `run` receives as `context`, as JSON. Required if `run`
   * declares a context. Default: `context` of `taskEndpoints`.
   */
  readonly context?: (request: HttpRequest<C>) => unknown
  /** `prefer` (default): the client's `Prefer: respond-async` decides. `always`: a 202. */
  readonly respond?: 'prefer' | 'always'
  /**
   * Input of a request without a body. Default: a body is required.
   *
   * Such a request from a page of another site (`Sec-Fetch-Site`, or else `Origin`) without a
   * Content-Type gets 403 `cross_site`.
   */
  readonly emptyBody?: unknown
  /** Finds the callback URL in the body. Default: `callback` of `taskEndpoints`. */
  readonly callback?: string | FindCallback<C>
  /** Finds the start in the body. Default: `startAt` of `taskEndpoints`. */
  readonly startAt?: FindStart<C>
  /** Submits the task in a transaction of yours. Requires the engine of `longhaul/postgres`. Default: none. */
  readonly transaction?: SubmitTransaction<C, I>
}

/**
 * Writes the rows of a valid request and submits its task, in one transaction of the application.
 * Resolves after the commit; the response is sent then.
 *
 * - `submit` accepts the task in an open transaction, and resolves to its id. Let its errors pass, so
 *   that the transaction is rolled back. If you retry the transaction, call it again.
 * - If the transaction is rolled back, reject: the client gets the error as if a handler had thrown it.
 *   If the error, or its `cause`, says that the connection was lost, the client gets a 503.
 * - It is not called if the Idempotency-Key has a task already. Of two concurrent requests with one
 *   key, only one commits.
 *
 * @example
 * endpoints.submit(report, {
 *   transaction: async (request, input, submit) => {
 *     const client = await pool.connect()
 *     try {
 *       await client.query('BEGIN')
 *       const { taskId } = await submit(client)
 *       await client.query('INSERT INTO reports (year, task) VALUES ($1, $2)', [input.year, taskId])
 *       await client.query('COMMIT')
 *     } catch (error) {
 *       // If the connection is lost, ROLLBACK fails, too, and must not hide the first error.
 *       await client.query('ROLLBACK').catch(() => undefined)
 *       throw error
 *     } finally {
 *       client.release()
 *     }
 *   },
 * })
 */
export type SubmitTransaction<C = unknown, I = unknown> = (
  request: HttpRequest<C>, input: I,
  submit: (transaction: Transaction) => Promise<{ readonly taskId: string }>,
) => Promise<unknown>

/** Selects the work for a body, or throws an `HttpError` such as `unknown_task`. */
export type Select<C = unknown, D extends Definitions = Definitions> =
  (body: unknown, request: HttpRequest<C>) => MaybePromise<Selected<D>>

/** One kind of work and its input. */
export interface Selected<D extends Definitions = Definitions> {
  readonly definition: D[number]
  readonly input: unknown
  /** JSON pointer to the input in the body, such as `/data`, for errors. Default `''`: the whole body. */
  readonly pointer?: string
}

/** Input that your own handler has read from a request, for `TaskEndpoints.accept`. */
export interface ReadWork {
  readonly input: unknown
  /** Distinguishes requests with the same Idempotency-Key. Compared as JSON. */
  readonly body: unknown
  /** Called when no task will use this input: it was rejected, or an earlier task exists. */
  readonly discard?: () => unknown
}

/** The options of `submit`. They are required, with `context`, if the definition needs one. */
export type SubmitEndpointArguments<C, T> =
  T extends AnyTaskDefinition
    ? unknown extends ContextOf<T> ? [options?: SubmitEndpointOptions<C, InputOf<T>>]
      : [options: SubmitEndpointOptions<C, InputOf<T>> & {
        /** Returns the context that `run` of this definition needs. */
        readonly context: (request: HttpRequest<C>) => ContextOf<T>
      }]
    : [options?: SubmitEndpointOptions<C>]

/** Rejects a definition that `createTasks` was not given. The name of the property is the message. */
export type Registered<T, D extends Definitions> =
  T extends D[number] | Select<never> ? unknown
    : { readonly 'this definition is not in `definitions` of createTasks': never }

/**
 * The call is typed as a method, so that endpoints of certain definitions can be passed where
 * endpoints of any definitions are expected.
 */
export type SubmitEndpoint<C = unknown, D extends Definitions = Definitions> = {
  /** Creates a handler for POST. */
  submit<T extends AnyTaskDefinition | Select<C, D>>(
    what: T & Registered<T, D>, ...options: SubmitEndpointArguments<C, T>
  ): Handler<C>
}['submit']
