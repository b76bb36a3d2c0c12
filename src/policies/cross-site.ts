import { httpError } from '../http/errors.js'
import type { HttpRequest, Operation, Policy, PolicyPlace } from '../http/exchange.js'
import { areOrigins, isCrossSite } from '../http/cross-site.js'
import { addFailures } from '../openapi/responses.js'
import { oneOf, readOptions, value, type OptionTable } from '../runtime/options.js'
import { AFTER_ID } from './request-id.js'

/** Options of `crossSite`. */
export interface CrossSiteOptions {
  /** Origins to allow, in addition to those that `cors` allows by name. Default: none. */
  readonly origins?: readonly string[]
  /**
   * Treatment of other origins of the same site, such as `https://blog.example.com` for
   * `https://api.example.com`. `'refuse'`: subdomains are not trusted. Default: 'allow'.
   */
  readonly sameSite?: 'allow' | 'refuse'
}

const OPTIONS = {
  origins: value(
    'a list of origins such as https://app.example.com, lower-case and without a path',
    areOrigins, { default: [] as readonly string[] },
  ),
  sameSite: oneOf(['allow', 'refuse'], { default: 'allow' }),
} satisfies OptionTable<CrossSiteOptions>

const SAFE = new Set(['GET', 'HEAD', 'OPTIONS', 'TRACE'])
const PLACE: PolicyPlace = {
  name: 'crossSite',
  behind: {
    ...AFTER_ID,
    cors: 'it does not know there which origins cors lets in, and their pages could not read its 403',
  },
}

/**
 * Rejects requests that a page of another site makes a browser send with its user's cookies: 403
 * `cross_site`. For everything that is protected by cookies, HTTP authentication, client
 * certificates or the network.
 *
 * - GET, HEAD, OPTIONS and TRACE pass. Handlers must change nothing on them.
 * - Other methods pass if `Sec-Fetch-Site` (Fetch Metadata) is `same-origin` or `none`, or
 *   `same-site` unless `sameSite` is `'refuse'`.
 * - Without `Sec-Fetch-Site` (older browsers, and plain `http`), `Origin` must name the host of
 *   `Host`.
 * - Without both headers the request passes, because no browser sends it.
 * @example
 * compose(cors({ origins: ['https://app.example.com'], credentials: true }), crossSite(), handler)
 * @throws {TypeError} An origin is not written as browsers send it, or an option is unknown.
 */
export function crossSite<C = unknown>(options: CrossSiteOptions = {}): Policy<C> {
  const { origins, sameSite } = readOptions('crossSite', options, OPTIONS)
  const named = new Set(origins)
  const passes = (request: HttpRequest<C>): boolean => {
    const { method, headers: { origin } } = request
    return SAFE.has(method) || (typeof origin === 'string' && named.has(origin))
      || !isCrossSite(request, sameSite)
  }
  const policy: Policy<C> = (request, next) => {
    if (passes(request)) return next(request)
    throw httpError('cross_site')
  }
  const rejects = addFailures('cross_site')
  const describe = (operation: Operation): Operation => (
    SAFE.has(operation.method) ? operation : rejects(operation)
  )
  return Object.assign(policy, { place: PLACE, describe })
}
