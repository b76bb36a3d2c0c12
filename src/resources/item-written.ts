import type { HttpRequest, HttpResponse, ResponseHeaders } from '../http/exchange.js'
import { toReference } from '../http/request.js'
import { parsePrefer } from '../http/fields/prefer.js'

/** A record as JSON, with its entity tag. */
interface Shown {
  readonly body: string
  readonly etag: string
}

/** Path of a record, and true if the write has created it. */
interface Place {
  readonly path: string
  readonly created: boolean
}

/** Answers a write: 201 with Location, 200, or 204 for a client that prefers no body. */
export function written(
  { method, headers: asked }: HttpRequest<unknown>, { body, etag }: Shown,
  { path, created }: Place,
): HttpResponse {
  const wish = parsePrefer(asked['prefer']).return
  const minimal = wish === 'minimal'
  const headers: ResponseHeaders = { vary: 'Prefer' }
  const reference = toReference(path)
  if (created) headers['location'] = reference
  if (wish !== undefined) headers['preference-applied'] = `return=${wish}`
  // RFC 9110 section 9.3.4: the stored record may differ from the one that PUT sent, so a client
  // without the record must not get the tag.
  if (!(minimal && method === 'PUT')) headers['etag'] = etag
  if (minimal) return created ? { status: 201, headers, body: '' } : { status: 204, headers }
  headers['content-type'] = 'application/json'
  headers['content-location'] = reference
  return { status: created ? 201 : 200, headers, body }
}
