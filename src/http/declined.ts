import { DerivedRequest } from './derived-request.js'
import { httpError, type HttpError } from './errors.js'
import type { HttpRequest, ResponseHeaders } from './exchange.js'
import { addFailureHeaders } from './failure.js'

/**
 * What policies would have added to the answer of a request that their handler declined, by the
 * binding's request.
 */
const declined = new WeakMap<object, ResponseHeaders>()

/** Keeps fields of a policy for the answer to a request that the handler behind it did not take. */
export function noteDeclined(request: HttpRequest, headers: ResponseHeaders): void {
  const root = DerivedRequest.root(request)
  // The outer policy comes last, and finds what those behind it have said.
  declined.set(root, headers)
}

/** The fields that policies behind this one have kept. */
export function declinedHeaders(request: HttpRequest): ResponseHeaders {
  return { ...declined.get(DerivedRequest.root(request)) }
}

/** The 404 for a request that nobody took, with the fields that policies add to every answer. */
export function notFound(request: HttpRequest): HttpError {
  const error = httpError('not_found')
  addFailureHeaders(error, declinedHeaders(request))
  return error
}
