import type { HttpRequest } from '../http/exchange.js'
import { principalOrNobody } from '../http/principal.js'
import { digestOf } from './digest.js'

/**
 * Fields that carry credentials. Cookies are not among them, because they change from request to
 * request.
 */
const CREDENTIALS = ['authorization', 'x-api-key'] as const

/**
 * Returns the store's key of a claim. An Idempotency-Key belongs to one caller, method, path (mount
 * path included) and chosen version. Under another one of these the same text is another key.
 *
 * @param caller - the owner of the work; `undefined` where there is none. The caller is then the
 * subject of the request's principal, or else whoever has the same `Authorization` and `X-Api-Key`.
 * @throws {TypeError} the host knows a user (`context.user`) but has named neither caller nor
 * principal: all users would share keys.
 */
export function claimKey(
  request: HttpRequest<unknown>, caller: string | undefined, key: string,
): string {
  const { method, path, version = null } = request
  return `idempotency:${digestOf(JSON.stringify([callerOf(request, caller), method, path, version, key]))}`
}

function callerOf(request: HttpRequest<unknown>, caller: string | undefined): readonly unknown[] {
  if (caller !== undefined) return ['owner', caller]
  const subject = principalOrNobody(request, 'Idempotency-Key')?.subject
  if (subject !== undefined) return ['subject', subject]
  return ['credentials', ...CREDENTIALS.map((name) => request.headers[name] ?? null)]
}
