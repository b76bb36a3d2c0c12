import type { HttpRequest } from './exchange.js'

/** Marks, in the context of a request, that `cors` lets this origin in by name. */
export const KNOWN_ORIGIN: unique symbol = Symbol('longhaul.knownOrigin')

/** Whether `cors` has let the origin of this request in by name. */
export function isKnownOrigin(request: HttpRequest<unknown>): boolean {
  return (request.context as { readonly [KNOWN_ORIGIN]?: boolean } | null | undefined)?.[KNOWN_ORIGIN] === true
}

/**
 * Whether the browser says that a page of another site has sent this request (Fetch Metadata,
 * `Sec-Fetch-Site`), and `cors` does not know its origin. Browsers send the field to `https` and to
 * the local machine only.
 */
export function isCrossSite(request: HttpRequest<unknown>): boolean {
  return request.headers['sec-fetch-site'] === 'cross-site' && !isKnownOrigin(request)
}
