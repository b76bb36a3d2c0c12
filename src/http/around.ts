import { isPending, type MaybePromise } from '../runtime/maybe-promise.js'
import { declinedHeaders, noteDeclined } from './declined.js'
import type { Handler, HttpRequest, HttpResponse, ResponseHeaders } from './exchange.js'
import { addFailureHeaders } from './failure.js'

/** Adds to the headers of an answer, in place. Called for answers and for failures alike. */
export type Finish = (headers: ResponseHeaders) => void

/**
 * Calls `next` and adds headers to whatever comes of it: an answer, a failure, or the 404 of a
 * request that it declines. The answer itself is copied, because a handler may give the same one
 * every time. Synchronous where `next` is.
 */
export function around<C>(next: Handler<C>, request: HttpRequest<C>, finish: Finish): MaybePromise<HttpResponse | undefined> {
  try {
    const answer = next(request)
    if (!isPending(answer)) return finished(answer, request, finish)
    return answer.then((late) => finished(late, request, finish), (error: unknown) => { throw failed(error, finish) })
  } catch (error) {
    throw failed(error, finish)
  }
}

function finished(answer: HttpResponse | undefined, request: HttpRequest, finish: Finish): HttpResponse | undefined {
  if (answer === undefined) {
    // Where no host goes on, the binding answers 404, and that is an answer like any other.
    const headers = declinedHeaders(request)
    finish(headers)
    noteDeclined(request, headers)
    return undefined
  }
  // An object literal that is spread first and added to afterwards costs several times as much.
  const headers: ResponseHeaders = Object.assign({}, answer.headers)
  finish(headers)
  return { ...answer, headers }
}

function failed(error: unknown, finish: Finish): unknown {
  const headers: ResponseHeaders = {}
  finish(headers)
  addFailureHeaders(error, headers)
  return error
}
