import type { ResponseHeaders } from './exchange.js'
import { addFailureHeaders } from './failure.js'

/** Fields that are about the content of one answer; all others are about the exchange. */
const OF_CONTENT = new Set([
  'accept-ranges', 'cache-control', 'etag', 'expires', 'last-modified', 'link', 'location', 'preference-applied', 'repr-digest', 'retry-after',
  'transfer-encoding',
])

/**
 * Keeps what policies have said of an exchange, such as the id of the request, for the error that
 * is sent in place of its answer: a streamed answer may fail before its head is out.
 */
export function keepFields(error: unknown, { headers }: { readonly headers: ResponseHeaders }): void {
  const kept = Object.entries(headers).filter(([name]) => !OF_CONTENT.has(name) && !name.startsWith('content-'))
  addFailureHeaders(error, Object.fromEntries(kept))
}
