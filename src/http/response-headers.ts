import { isPending, type MaybePromise } from '../runtime/maybe-promise.js'
import { DerivedRequest } from './derived-request.js'
import { httpError, type HttpError } from './errors.js'
import type { Handler, HttpRequest, HttpResponse, ResponseHeaders } from './exchange.js'
import { addFailureHeaders } from './failure.js'

/** Adds header fields to `headers`, in place. Called for responses and for failures alike. */
export type AddHeaders = (headers: ResponseHeaders) => void

/**
 * Calls `next` and adds header fields to its outcome: a response, a failure, or the 404 for a
 * request that it declines. The response is copied, because a handler may return the same object
 * every time. Returns a promise only if `next` does.
 */
export function withHeaders<C>(
  next: Handler<C>, request: HttpRequest<C>, addHeaders: AddHeaders,
): MaybePromise<HttpResponse | undefined> {
  try {
    const response = next(request)
    if (!isPending(response)) return toResponse(response, request, addHeaders)
    return response.then(
      (late) => toResponse(late, request, addHeaders),
      (error: unknown) => { throw toFailure(error, addHeaders) },
    )
  } catch (error) {
    throw toFailure(error, addHeaders)
  }
}

function toResponse(
  response: HttpResponse | undefined, request: HttpRequest, addHeaders: AddHeaders,
): HttpResponse | undefined {
  if (response === undefined) {
    const headers = headersForNotFound(request)
    addHeaders(headers)
    notFoundHeaders.set(DerivedRequest.root(request), headers)
    return undefined
  }
  // Faster than a spread followed by additions, which costs several times as much.
  const headers: ResponseHeaders = Object.assign({}, response.headers)
  addHeaders(headers)
  return { ...response, headers }
}

function toFailure(error: unknown, addHeaders: AddHeaders): unknown {
  const headers: ResponseHeaders = {}
  addHeaders(headers)
  addFailureHeaders(error, headers)
  return error
}

/**
 * Header fields for the 404 that the binding sends if every handler declines a request. Keyed by
 * the binding's request. The outer policies add to the fields of the inner ones.
 */
const notFoundHeaders = new WeakMap<object, ResponseHeaders>()

function headersForNotFound(request: HttpRequest): ResponseHeaders {
  return { ...notFoundHeaders.get(DerivedRequest.root(request)) }
}

/** Returns the 404 for a request that every handler declined, with the fields of policies. */
export function notFound(request: HttpRequest): HttpError {
  const error = httpError('not_found')
  addFailureHeaders(error, headersForNotFound(request))
  return error
}

/** Header fields that describe the content of one response. All others describe the exchange. */
const CONTENT_FIELDS = new Set([
  'accept-ranges', 'cache-control', 'etag', 'expires', 'last-modified', 'link', 'location',
  'preference-applied', 'repr-digest', 'retry-after', 'transfer-encoding',
])

/**
 * Copies the header fields of a response that describe the exchange, such as the request id, to the
 * error that is sent instead. A streamed response can fail before its head is sent.
 */
export function copyHeadersToError(
  error: unknown, { headers }: { readonly headers: ResponseHeaders },
): void {
  const copied = Object.entries(headers)
    .filter(([name]) => !CONTENT_FIELDS.has(name) && !name.startsWith('content-'))
  addFailureHeaders(error, Object.fromEntries(copied))
}
