import type { Handler, HttpRequest } from '../../http/exchange.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import type { ContextOf, Definitions } from '../definition/task-types.js'

/** Options of one submit endpoint. */
export interface SubmitEndpointOptions<C = unknown> {
  /**
   * Returns the part of the request that `run` receives as `context`, as JSON. Required, and typed,
   * if the definition says which context it needs. Default: `context` of `taskEndpoints`.
   */
  readonly context?: (request: HttpRequest<C>) => unknown
  /**
   * `prefer` (default): the client's `Prefer: respond-async` decides. `always`: every request gets
   * a 202.
   */
  readonly respond?: 'prefer' | 'always'
  /**
   * The input of a request without a body. Such a request is refused with 403 `cross_site` if the
   * browser says that a page of another site has sent it (`Sec-Fetch-Site: cross-site`) and it has
   * no Content-Type. Default: a body is required, 400 `missing_body`.
   */
  readonly emptyBody?: unknown
  /** Finds the callback URL in the body. Default: `callback` of `taskEndpoints`. */
  readonly callback?: FindCallback<C>
}

/**
 * Selects the work that a body asks for. Throws an `HttpError`, such as 422 `unknown_task`, if there
 * is none.
 */
export type Select<C = unknown, D extends Definitions = Definitions> =
  (body: unknown, request: HttpRequest<C>) => MaybePromise<Selected<D>>

/** One kind of work and its input. */
export interface Selected<D extends Definitions = Definitions> {
  readonly definition: D[number]
  readonly input: unknown
  /**
   * JSON pointer to the input in the body, such as `/data`. Pointers of validation errors begin with
   * it. Default `''`: the input is the whole body.
   */
  readonly pointer?: string
}

/**
 * Finds the callback URL of a submission; `undefined` for none. `body` is the JSON body, or `{}` if
 * that is no object. The URL is checked afterwards.
 */
export type FindCallback<C = unknown> = (body: Readonly<Record<string, unknown>>, request: HttpRequest<C>) => unknown

/** Input that a handler of the host has read from a request, for `TaskEndpoints.accept`. */
export interface ReadWork {
  readonly input: unknown
  /** Distinguishes requests with the same Idempotency-Key. Compared as JSON. */
  readonly body: unknown
  /**
   * Called when no task will ever use this input: it was refused, or an earlier request had started
   * the task.
   */
  readonly discard?: () => unknown
}

/**
 * The options of `submit` for a definition: required, with their `context`, if the definition says
 * which context it needs.
 */
export type SubmitEndpointArguments<C, T> =
  T extends AnyTaskDefinition
    ? unknown extends ContextOf<T> ? [options?: SubmitEndpointOptions<C>]
      : [options: SubmitEndpointOptions<C> & {
        /** Returns the context that `run` of this definition needs. */
        readonly context: (request: HttpRequest<C>) => ContextOf<T>
      }]
    : [options?: SubmitEndpointOptions<C>]

/** Refuses a definition that `createTasks` was not given. The name of the member is the message. */
export type Registered<T, D extends Definitions> =
  T extends D[number] | Select<never> ? unknown
    : { readonly 'this definition is not in `definitions` of createTasks': never }

/**
 * Creates handlers for POST; see `TaskEndpoints.submit`. Its call is typed as a method, so that
 * endpoints of some definitions fit where endpoints of any definitions are expected.
 */
export type SubmitEndpoint<C = unknown, D extends Definitions = Definitions> = {
  /** Creates a handler for POST. */
  submit<T extends AnyTaskDefinition | Select<C, D>>(
    what: T & Registered<T, D>, ...options: SubmitEndpointArguments<C, T>
  ): Handler<C>
}['submit']
