import type { HttpRequest } from './exchange.js'

/** Context member that `cors` sets when it allows the origin of a request by name. */
export const KNOWN_ORIGIN: unique symbol = Symbol('longhaul.knownOrigin')

/** Returns whether `cors` allowed the origin of this request by name. */
export function isKnownOrigin(request: HttpRequest<unknown>): boolean {
  return (
    (request.context as { readonly [KNOWN_ORIGIN]?: boolean } | null | undefined)?.[
      KNOWN_ORIGIN
    ] === true
  )
}

/**
 * Returns whether the browser reports that a page of another site sent this request, and `cors`
 * does not allow its origin. Reads `Sec-Fetch-Site` (Fetch Metadata), which browsers send only to
 * `https` and to the local machine.
 */
export function isCrossSite(request: HttpRequest<unknown>): boolean {
  return request.headers['sec-fetch-site'] === 'cross-site' && !isKnownOrigin(request)
}
