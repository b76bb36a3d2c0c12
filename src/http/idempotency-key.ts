import { httpError } from './errors.js'
import type { HttpRequest, HttpResponse } from './exchange.js'
import { addFailureHeaders } from './failure.js'

/**
 * Rejects a request with an Idempotency-Key. For endpoints that change something and keep no keys:
 * a client that sends a key may repeat its request, so the key must not be ignored. The policy
 * `idempotent()` hides the key from the handlers behind it.
 *
 * @throws {HttpError} 400 `idempotency_not_supported`
 */
export function refuseIdempotencyKey({ headers }: HttpRequest<unknown>): void {
  if (headers['idempotency-key'] !== undefined) throw httpError('idempotency_not_supported')
}

/**
 * Does the work of a request, and acknowledges its Idempotency-Key if it has one: the response
 * header `Idempotency-Key` repeats it, on failures too. So a client knows that it may send such a
 * request again.
 */
export function acknowledged<R extends HttpResponse | undefined>(
  { headers }: HttpRequest<unknown>, work: () => Promise<R>,
): Promise<R> {
  const key = headers['idempotency-key']
  return typeof key === 'string' ? withKey(key, work) : work()
}

async function withKey<R extends HttpResponse | undefined>(
  key: string, work: () => Promise<R>,
): Promise<R> {
  const headers = { 'idempotency-key': key }
  try {
    const response = await work()
    return response && { ...response, headers: { ...response.headers, ...headers } }
  } catch (error) {
    addFailureHeaders(error, headers)
    throw error
  }
}
