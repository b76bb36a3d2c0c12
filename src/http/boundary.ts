import { isPending, type MaybePromise } from '../runtime/maybe-promise.js'
import { describe, type Handler, type HttpRequest, type HttpResponse } from './exchange.js'
import { hasErrorListener, publishError, reportErrorsTo } from './error-reports.js'
import { isDisconnect, readFailure } from './failure.js'
import { dueReport } from './refusals.js'
import { checkNames } from '../runtime/option-names.js'
import { errorResponse } from './respond.js'
import { getRequestId } from './derived-request.js'
import { telling, warn } from '../runtime/warning.js'

/**
 * Receives every error that is not the client's: unknown errors, 5xx, a store that failed, and
 * `HttpError`s with a `cause`. It does not receive a plain 404, 422 or 501, the stored failure of a
 * task, nor what stopped because the client has disconnected. Refusals such as 503 `queue_full` are
 * counted: it receives one for each code and minute, whose `stack` is one line. What it throws or
 * rejects with becomes a process warning.
 */
export type OnError = (error: unknown, request: HttpRequest) => unknown

/** Options of `guard`. */
export interface GuardOptions {
  /**
   * Receives errors that are masked to clients. Default: a process warning named `LonghaulError`,
   * unless `reportErrorsTo` has a listener.
   */
  readonly onError?: OnError | undefined
}

const KNOWN = { onError: 0 } satisfies Record<keyof GuardOptions, 0>

type Result = MaybePromise<HttpResponse | undefined>

/**
 * Wraps a handler in the error boundary, which belongs outside all policies. Answers an error, a
 * rejection or a value that is not a response with `errorResponse`. The result never throws or
 * rejects, and is synchronous if `handler` is.
 *
 * @example
 * const safe = guard(handler, { onError: (error) => logger.error(error) })
 *
 * @throws {TypeError} An option is unknown.
 */
export function guard<C>(handler: Handler<C>, options: GuardOptions = {}): Handler<C> {
  checkNames('guard', options, KNOWN)
  const { onError } = options
  const guarded = (request: HttpRequest<C>): Result => {
    try {
      const result: unknown = handler(request)
      if (result === undefined || isResponse(result)) return result
      return isPending(result)
        ? settle(result, request, onError)
        : failed(noResponse(), request, onError)
    } catch (error) {
      return failed(error, request, onError)
    }
  }
  return handler.operations ? describe(guarded, handler.operations) : guarded
}

/** Not an async function, which would cost each late response two more microtasks. */
function settle(
  pending: PromiseLike<unknown>,
  request: HttpRequest,
  onError: OnError | undefined,
): Promise<HttpResponse | undefined> {
  return Promise.resolve(pending).then(
    (result) => {
      try {
        return result === undefined || isResponse(result)
          ? result
          : failed(noResponse(), request, onError)
      } catch (error) {
        return failed(error, request, onError)
      }
    },
    (error: unknown) => failed(error, request, onError),
  )
}

function failed(error: unknown, request: HttpRequest, onError: OnError | undefined): HttpResponse {
  report(error, request, onError)
  return errorResponse(error, request)
}

function isResponse(result: unknown): result is HttpResponse {
  return typeof (result as HttpResponse | null)?.status === 'number'
}

function noResponse(): TypeError {
  return new TypeError(
    'A handler must return a response { status, headers, body? }, ' +
    'or undefined when the request is not its own',
  )
}

function report(error: unknown, request: HttpRequest, onError: OnError | undefined): void {
  if (readFailure(error).expected || isDisconnect(error, request)) return
  if (hasErrorListener()) {
    const due = dueReport(reportErrorsTo, error)
    if (due) publishError({ ...due, request })
  } else if (onError === undefined) {
    const due = dueReport(warn, error)
    if (due) warn(due.error, aboutRequest(request))
  }
  if (onError !== undefined) {
    const due = dueReport(onError, error)
    if (due) telling(() => onError(due.error, request))
  }
}

/** Names a request in a warning. Leaves out the query, because it may contain secrets. */
function aboutRequest(request: HttpRequest): string {
  const id = getRequestId(request)
  return `${request.method} ${request.path}${id === undefined ? '' : ` (request ${id})`}`
}
