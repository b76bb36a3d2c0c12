import { createHash } from 'node:crypto'
import type { HttpRequest } from '../http/exchange.js'
import { principalOf } from '../http/principal.js'

/** Whom a limit is counted for. */
export type LimitBy<C> = 'principal' | 'address' | ((request: HttpRequest<C>) => string | undefined)

const PLAIN = /^[A-Za-z0-9._~@:/-]{1,128}$/

/**
 * The part of a counter's key that tells callers apart, `undefined` for one who is not limited. A principal can't be named
 * so that it shares the counter of an address. Those without an address share one.
 */
export function limitKey<C>(request: HttpRequest<C>, by: LimitBy<C>, addressOf: (request: HttpRequest) => string | undefined): string | undefined {
  if (typeof by === 'function') {
    const text = by(request)
    return text === undefined ? undefined : `k:${plain(text)}`
  }
  const subject = by === 'principal' ? principalOf(request)?.subject : undefined
  return subject === undefined ? `a:${addressOf(request) ?? 'unknown'}` : `p:${plain(subject)}`
}

/** Keys of the store are short and well-formed; what is not becomes a digest. */
function plain(text: string): string {
  return PLAIN.test(text) ? text : `#${createHash('sha256').update(Buffer.from(text, 'utf16le')).digest('base64url')}`
}
