import { createHash } from 'node:crypto'
import type { HttpRequest } from '../http/exchange.js'
import { Memo } from '../runtime/collections.js'
import { principalOrNobody } from '../http/requester.js'

/** Whom a limit is counted for. */
export type LimitBy<C> = 'principal' | 'address' | ((request: HttpRequest<C>) => string | undefined)

const PLAIN = /^[A-Za-z0-9._~@:/-]{1,128}$/

/**
 * Makes the function that gives the key of a request's counter, `undefined` for one who is not
 * limited. A principal can't be named so that it shares the counter of an address. Those without an
 * address share one.
 */
export function limitKeys<C>(
  start: string, by: LimitBy<C>, addressOf: (request: HttpRequest) => string | undefined,
): (request: HttpRequest<C>) => string | undefined {
  const keysOf = (kind: string): Memo<{ readonly key: string }> =>
    new Memo((text) => ({ key: `${start}:${kind}:${plain(text)}` }))
  const principals = keysOf('p')
  const addresses = new Memo((text: string) => ({ key: `${start}:a:${text}` }))
  const byAddress = (request: HttpRequest<C>): string =>
    addresses.get(addressOf(request) ?? 'unknown').key
  if (by === 'address') return byAddress
  if (by === 'principal') {
    return (request) => {
      const subject = principalOrNobody(request, "rateLimit: by: 'principal'")?.subject
      return subject === undefined ? byAddress(request) : principals.get(subject).key
    }
  }
  const own = keysOf('k')
  return (request) => {
    const text = by(request)
    return text === undefined ? undefined : own.get(text).key
  }
}

/** Keys of the store are short and well-formed; what is not becomes a digest. */
function plain(text: string): string {
  return PLAIN.test(text)
    ? text
    : `#${createHash('sha256').update(Buffer.from(text, 'utf16le')).digest('base64url')}`
}
