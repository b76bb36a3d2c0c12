import type { HttpRequest } from './exchange.js'

/** Context property that `cors` sets when it allows the origin of a request by name. */
export const KNOWN_ORIGIN: unique symbol = Symbol('longhaul.knownOrigin')

type Context = { readonly [KNOWN_ORIGIN]?: boolean } | null | undefined

function isKnownOrigin({ context }: HttpRequest<unknown>): boolean {
  return (context as Context)?.[KNOWN_ORIGIN] === true
}

const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/[^/\s,*?#A-Z]+$/

/** Returns true for a list of origins as browsers send them. */
export function areOrigins(list: unknown): list is readonly string[] {
  return Array.isArray(list) && list.every((each) => typeof each === 'string' && ORIGIN.test(each))
}

/**
 * Returns true if a page of another site made a browser send this request, and `cors` does not
 * allow its origin by name. Reads `Sec-Fetch-Site` (Fetch Metadata), else compares `Origin` with
 * `Host` (older browsers, and plain `http`). Without both, no browser sent the request.
 */
export function isCrossSite(
  request: HttpRequest<unknown>, sameSite: 'allow' | 'refuse' = 'allow',
): boolean {
  const { origin, 'sec-fetch-site': site } = request.headers
  if (site === 'same-origin' || site === 'none') return false
  if (site === 'same-site' && sameSite === 'allow') return false
  if (site === undefined && (origin === undefined || isOwn(origin, request))) return false
  return !isKnownOrigin(request)
}

function isOwn(origin: string | string[], { headers }: HttpRequest<unknown>): boolean {
  const host = headers['host'] ?? headers[':authority']
  if (typeof origin !== 'string' || typeof host !== 'string') return false
  try {
    const url = new URL(origin)
    return url.host !== '' && url.host === new URL(`${url.protocol}//${host}`).host
  } catch {
    // `null`, or another string that is no origin.
    return false
  }
}
