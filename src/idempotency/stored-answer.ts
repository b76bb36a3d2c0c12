import type { HttpResponse, ResponseHeaders } from '../http/exchange.js'
import type { StoredAnswer } from './claim.js'

/** Header fields that describe a body which is not kept. */
const OF_BODY = [
  'content-length', 'content-encoding', 'content-digest', 'repr-digest', 'etag', 'accept-ranges',
  'content-range',
]

/** Body that retries get in place of one that is not kept. */
const NOT_KEPT = JSON.stringify({
  message: 'The request was carried out. Its answer is too large to be repeated.',
})

/** Maximum size of the kept header fields, in UTF-16 units. Clients read no more than 16 KiB. */
const MAX_FIELDS = 16_384

/**
 * Returns the part of a response that is kept. `short` replaces a body that is a stream, or larger
 * than `maxBytes`. Header fields beyond 16 KiB are omitted.
 */
export function toStored(
  { status, headers: all, body }: HttpResponse, maxBytes: number, short = NOT_KEPT,
): StoredAnswer {
  const headers = someOf(all)
  if (body === undefined || body === '') return { status, headers, body: '' }
  if (typeof body === 'string' && Buffer.byteLength(body) <= maxBytes) {
    return { status, headers, body }
  }
  if (body instanceof Uint8Array && body.byteLength <= maxBytes) {
    return { status, headers, body: Buffer.from(body).toString('base64'), base64: true }
  }
  const kept: ResponseHeaders = { ...headers, 'content-type': 'application/json' }
  for (const name of OF_BODY) delete kept[name]
  return { status, headers: kept, body: short }
}

function someOf(headers: Readonly<ResponseHeaders>): ResponseHeaders {
  let left = MAX_FIELDS
  const kept: ResponseHeaders = {}
  for (const [name, value] of Object.entries(headers)) {
    const size = name.length + String(value).length
    if (size > left) continue
    left -= size
    kept[name] = value
  }
  return kept
}

/** Returns the response for a retry. */
export function replay({ status, headers, body, base64 }: StoredAnswer): HttpResponse {
  const again: HttpResponse = { status, headers: { ...headers, 'idempotent-replayed': 'true' } }
  if (body !== '') again.body = base64 ? Buffer.from(body, 'base64') : body
  return again
}
