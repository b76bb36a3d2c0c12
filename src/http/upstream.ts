import { httpError, isHttpError, type HttpError, type HttpErrorOptions } from './errors.js'
import { checkNames } from '../runtime/option-names.js'

/** Codes of Node's and undici's errors, by which a time limit is told from other failures. */
const LATE = new Set(['ETIMEDOUT', 'ESOCKETTIMEDOUT', 'UND_ERR_CONNECT_TIMEOUT', 'UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT'])
const KNOWN = { message: 0, details: 0, members: 0, headers: 0 } satisfies Record<keyof Omit<HttpErrorOptions, 'cause'>, 0>
/** How many causes deep a code is looked for: `fetch` hides it one deep. */
const DEEP = 5

/**
 * What a failed call of another server means to our client: 504 `gateway_timeout` where it took too
 * long (`AbortSignal.timeout`, a time limit of the connection or of `fetch`), else 502
 * `bad_gateway` (RFC 9110 sections 15.6.3 and 15.6.5). What really happened is its `cause`, for
 * `onError` only. An `HttpError` stays what it is.
 *
 * ```ts
 * const rates = await fetch(url, { signal: AbortSignal.timeout(2000) }).catch((error) => { throw upstreamError(error) })
 * if (!rates.ok) throw upstreamError(new Error(`rates: ${rates.status}`))
 * ```
 *
 * It works alike in handlers, repositories and tasks; a failed task shows the code on its status
 * resource. A call that was given up with `request.signal` counts as failed too, and nobody is
 * there to see it.
 */
export function upstreamError(error: unknown, options: Omit<HttpErrorOptions, 'cause'> = {}): HttpError {
  checkNames('upstreamError', options, KNOWN)
  return isHttpError(error) ? error : httpError(isLate(error) ? 'gateway_timeout' : 'bad_gateway', { ...options, cause: error ?? 'nothing was said' })
}

function isLate(error: unknown): boolean {
  let each = error
  for (let depth = 0; depth < DEEP && typeof each === 'object' && each !== null; depth++) {
    const { name, code, cause } = each as { readonly name?: unknown, readonly code?: unknown, readonly cause?: unknown }
    if (name === 'TimeoutError' || (typeof code === 'string' && LATE.has(code))) return true
    each = cause
  }
  return false
}
