import type { Handler, HttpRequest } from '../../http/exchange.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import type { Transaction } from '../../engine/engine.js'
import type { AnyTaskDefinition, ContextOf, Definitions, InputOf } from '../definition/define.js'
import type { FindCallback, FindStart } from './settings.js'

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
   * Input of a request without a body. Such a request from a page of another site (`Sec-Fetch-Site`,
   * or else `Origin`) without a Content-Type gets 403 `cross_site`. Default: a body is required.
   */
  readonly emptyBody?: unknown
  /** Finds the callback URL in the body. Default: `callback` of `taskEndpoints`. */
  readonly callback?: FindCallback<C>
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
 *       await client.query('ROLLBACK')
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

/** Selects the work that a body asks for, or throws an `HttpError` such as `unknown_task`. */
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

/** The call is typed as a method, so that endpoints of some definitions fit where those of any are expected. */
export type SubmitEndpoint<C = unknown, D extends Definitions = Definitions> = {
  /** Creates a handler for POST. */
  submit<T extends AnyTaskDefinition | Select<C, D>>(
    what: T & Registered<T, D>, ...options: SubmitEndpointArguments<C, T>
  ): Handler<C>
}['submit']
