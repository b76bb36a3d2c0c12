import type { HttpRequest } from '../http/exchange.js'
import { principalOrNobody } from '../http/requester.js'
import { digestOf } from './digest.js'

/** Header fields with credentials. */
export const CREDENTIALS = ['authorization', 'cookie', 'proxy-authorization', 'x-api-key'] as const

/**
 * Returns the store key of a claim. An Idempotency-Key belongs to one caller, method, path (mount
 * path included) and chosen version. With another of these, the same text is another key.
 *
 * @param caller - the owner of the work. If `undefined`, the caller is the subject of the request's
 * principal, or else the values of `Authorization`, `Cookie`, `Proxy-Authorization` and `X-Api-Key`.
 * @throws {TypeError} The host has a user (`context.user`) but has set neither caller nor
 * principal. All users would share keys.
 */
export function claimKey(
  request: HttpRequest<unknown>, caller: string | undefined, key: string,
): string {
  const { method, path, version = null } = request
  const scope = [callerOf(request, caller), method, path, version, key]
  return `idempotency:${digestOf(JSON.stringify(scope))}`
}

function callerOf(request: HttpRequest<unknown>, caller: string | undefined): readonly unknown[] {
  if (caller !== undefined) return ['owner', caller]
  const subject = principalOrNobody(request, 'Idempotency-Key')?.subject
  if (subject !== undefined) return ['subject', subject]
  return ['credentials', ...CREDENTIALS.map((name) => request.headers[name] ?? null)]
}
