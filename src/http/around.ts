import type { Handler, HttpRequest, HttpResponse, MaybePromise, ResponseHeaders } from './exchange.js'
import { addFailureHeaders } from './failure.js'

/** Adds to the headers of an answer, in place. Called for answers and for failures alike. */
export type Finish = (headers: ResponseHeaders) => void

/**
 * Calls `next` and adds headers to whatever comes of it, an answer or a failure. The answer itself is copied, because a
 * handler may give the same one every time. Synchronous where `next` is.
 */
export function around<C>(next: Handler<C>, request: HttpRequest<C>, finish: Finish): MaybePromise<HttpResponse | undefined> {
  try {
    const answer = next(request)
    if (!isPending(answer)) return finished(answer, finish)
    return answer.then((late) => finished(late, finish), (error: unknown) => { throw failed(error, finish) })
  } catch (error) {
    throw failed(error, finish)
  }
}

/** Whether an answer is still to come. */
export function isPending<T>(value: MaybePromise<T>): value is Promise<T> {
  return typeof (value as { then?: unknown } | undefined)?.then === 'function'
}

function finished(answer: HttpResponse | undefined, finish: Finish): HttpResponse | undefined {
  if (answer === undefined) return undefined
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
