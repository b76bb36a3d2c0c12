import type { HttpRequest, RequestHeaders, ResponseHeaders } from '../http/exchange.js'

/**
 * Interop versions of the draft that this server speaks. 5 and 6 are those of tus-js-client 4
 * (drafts 03 and 05), 7 to 9 those of the drafts up to 12.
 */
const SPOKEN = new Set(['5', '6', '7', '8', '9'])
const UPLOAD_RESUMPTION_SUPPORTED = 104

/** Returns the interop version of a client that sends one which this server speaks. */
export function interopVersion({ 'upload-draft-interop-version': field }: RequestHeaders):
number | undefined {
  return typeof field === 'string' && SPOKEN.has(field.trim()) ? Number(field) : undefined
}

/**
 * Returns whether a client gets the path of its upload before the final answer. A draft must not
 * send a 104 to a client that names no interop version.
 */
export function canAnnounce(request: HttpRequest<unknown>): boolean {
  return request.inform !== undefined && interopVersion(request.headers) !== undefined
}

/** Sends a 104 (draft section 5), if the client and the binding know it. */
export function announce(request: HttpRequest<unknown>, headers: ResponseHeaders): void {
  const version = interopVersion(request.headers)
  if (version === undefined) return
  request.inform?.(UPLOAD_RESUMPTION_SUPPORTED, {
    'upload-draft-interop-version': String(version), ...headers,
  })
}
