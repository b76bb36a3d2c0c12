import type { HttpRequest, HttpResponse, ResponseHeaders } from '../http/exchange.js'
import { parsePrefer } from '../http/fields/prefer.js'

/** A record as it goes out. */
interface Shown {
  readonly body: string
  readonly etag: string
}

/** The answer to a write: 201 with Location, 200, or 204 for a client that wants no body back. */
export function written(
  { method, headers: asked }: HttpRequest<unknown>, { body, etag }: Shown, { path, created }: { readonly path: string; readonly created: boolean },
): HttpResponse {
  const wish = parsePrefer(asked['prefer']).return
  const minimal = wish === 'minimal'
  const headers: ResponseHeaders = { vary: 'Prefer' }
  if (created) headers['location'] = path
  if (wish !== undefined) headers['preference-applied'] = `return=${wish}`
  // RFC 9110 section 9.3.4: a client that PUT something else than is kept now must not take the tag
  // for that of what it sent.
  if (!(minimal && method === 'PUT')) headers['etag'] = etag
  if (minimal) return created ? { status: 201, headers, body: '' } : { status: 204, headers }
  headers['content-type'] = 'application/json'
  headers['content-location'] = path
  return { status: created ? 201 : 200, headers, body }
}
