import type { HttpRequest } from '../../http/exchange.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import type { Requester } from './requester.js'

/**
 * Finds the work that a body asks for; throws an `HttpError` (422 `unknown_task`, say) when there
 * is none.
 */
export type Select<C = unknown> = (body: unknown, request: HttpRequest<C>) => MaybePromise<Selected>

/** One kind of work and its input. */
export interface Selected {
  readonly definition: AnyTaskDefinition
  readonly input: unknown
  /**
   * Where in the body the input is, so that pointers at what is wrong with it begin there: `/data`.
   * Default `''`, all of it.
   */
  readonly pointer?: string
}

/**
 * Finds the callback URL of a submission, `undefined` for none. `body` is the JSON body, `{}` when
 * that is no object; what is found is judged.
 */
export type FindCallback<C = unknown> = (body: Readonly<Record<string, unknown>>, request: HttpRequest<C>) => unknown

/** How one submit endpoint answers. */
export interface SubmitEndpointOptions<C = unknown> {
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
  /** In place of `callback` of `taskEndpoints`. */
  readonly callback?: FindCallback<C>
}

/** Everything that one submission has become on its way in. */
export interface Submission<C> extends Selected {
  readonly request: HttpRequest<C>
  readonly body: unknown
  readonly requester: Requester
  readonly idempotencyKey: string | undefined
  readonly callbackUrl: string | undefined
  readonly discard?: () => unknown
}

/** What a handler of your own has made of a request, for `TaskEndpoints.accept`. */
export interface ReadWork {
  readonly input: unknown
  /** Tells this request from another one with the same Idempotency-Key; has to survive JSON. */
  readonly body: unknown
  /**
   * Is called when it is certain that no task will ever use this input: it was refused, or an
   * earlier request had started the task.
   */
  readonly discard?: () => unknown
}
