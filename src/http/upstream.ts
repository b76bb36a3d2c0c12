import { httpError, isHttpError, type HttpError, type HttpErrorOptions } from './errors.js'
import { checkNames } from '../runtime/option-names.js'

/** Error codes of Node and undici that mean a timeout. */
const LATE = new Set([
  'ETIMEDOUT',
  'ESOCKETTIMEDOUT',
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
])
const KNOWN = { message: 0, details: 0, members: 0, headers: 0 } satisfies Record<
  keyof Omit<HttpErrorOptions, 'cause'>,
  0
>
/** Maximum number of nested causes that are searched. `fetch` nests its error one level deep. */
const DEEP = 5

/**
 * Converts the failure of a call to another server into an error for the client. A timeout becomes
 * 504 `gateway_timeout`, any other failure 502 `bad_gateway` (RFC 9110 sections 15.6.3 and 15.6.5).
 * Keeps the original error as `cause`, for `onError` only. Returns an `HttpError` unchanged.
 *
 * Works in handlers, repositories and tasks. A failed task shows the code on its status resource.
 *
 * @example
 * const rates = await fetch(url, { signal: AbortSignal.timeout(2000) })
 *   .catch((error) => { throw upstreamError(error) })
 * if (!rates.ok) throw upstreamError(new Error(`rates: ${rates.status}`))
 *
 * @throws {TypeError} An option is unknown.
 */
export function upstreamError(
  error: unknown,
  options: Omit<HttpErrorOptions, 'cause'> = {},
): HttpError {
  checkNames('upstreamError', options, KNOWN)
  return isHttpError(error)
    ? error
    : httpError(isLate(error) ? 'gateway_timeout' : 'bad_gateway', {
      ...options,
      cause: error ?? 'no error was given',
    })
}

function isLate(error: unknown): boolean {
  let each = error
  for (let depth = 0; depth < DEEP && typeof each === 'object' && each !== null; depth++) {
    const { name, code, cause } = each as {
      readonly name?: unknown
      readonly code?: unknown
      readonly cause?: unknown
    }
    if (name === 'TimeoutError' || (typeof code === 'string' && LATE.has(code))) return true
    each = cause
  }
  return false
}
