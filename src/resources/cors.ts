import { withHeaders, addVary } from '../http/respond.js'
import type {
  Handler, HttpRequest, HttpResponse, Policy, PolicyPlace, ResponseHeaders,
} from '../http/exchange.js'
import { areOrigins, KNOWN_ORIGIN } from '../http/cross-site.js'
import { withContext } from '../http/request.js'
import { readFailure } from '../http/failure.js'
import { flag, readOptions, value, whole, type OptionTable } from '../runtime/options.js'
import { headerText, isToken } from '../http/headers/reader.js'

/** Options of `cors`. */
export interface CorsOptions<C = unknown> {
  /** `*` for any origin, a list such as `https://app.example.com`, or a function that decides. */
  readonly origins: '*' | readonly string[] | ((origin: string, request: HttpRequest<C>) => boolean)
  /**
   * Methods that a preflight allows. Default: those of the resource, or, if it requires
   * credentials: GET, HEAD, POST, PUT, PATCH and DELETE.
   */
  readonly methods?: readonly string[]
  /** Request headers that a preflight allows. Default: the headers that it asks for. */
  readonly headers?: readonly string[]
  /** Response headers that pages may read, in place of the default: those that longhaul sends. */
  readonly exposeHeaders?: readonly string[]
  /** If `true`, requests may carry cookies. Requires origins by name. Default: false. */
  readonly credentials?: boolean
  /** Seconds for which browsers cache a preflight, up to 86,400. Default: that of the browser, about 5 s. */
  readonly maxAgeSeconds?: number
}

const NAMES = value('a list of names', (names) => (
  Array.isArray(names) && names.every((name) => typeof name === 'string' && isToken(name))
))
const OPTIONS = {
  origins: value(
    "'*', a function, or a list of origins such as https://app.example.com, lower-case and without a path",
    (origins) => origins === '*' || typeof origins === 'function'
      || (areOrigins(origins) && origins.length > 0), { required: true },
  ),
  methods: NAMES,
  headers: NAMES,
  exposeHeaders: NAMES,
  credentials: flag({ default: false }),
  maxAgeSeconds: whole({ max: 86_400 }),
} satisfies OptionTable<CorsOptions>
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']
const NEVER = ['TRACE', 'CONNECT']
const EXPOSED = [
  'Accept-Patch', 'Accept-Ranges', 'Allow', 'Api-Deprecated-Versions', 'Api-Supported-Versions',
  'Content-Disposition', 'Content-Location', 'Content-Range', 'Deprecation', 'ETag',
  'Idempotency-Key', 'Idempotent-Replayed', 'Link', 'Location', 'Preference-Applied', 'RateLimit',
  'RateLimit-Policy', 'Repr-Digest', 'Retry-After', 'Sunset', 'Upload-Complete', 'Upload-Length',
  'Upload-Limit', 'Upload-Offset', 'WWW-Authenticate', 'X-Request-Id',
]
const LONGEST = 2048
const LONGEST_ORIGIN = 512

const PLACE: PolicyPlace = { name: 'cors', behind: { requestId: 'its responses would have no id' } }

/**
 * Lets pages of other origins read responses, errors included. Responds to their preflights with
 * 200 (Fetch standard, section 3.2), so put it in front of `authenticate`. `crossSite` behind it
 * accepts origins that are allowed by name, or by a function with `credentials`. Other origins get
 * no CORS headers, so their browser hides the response.
 * @example
 * compose(cors({ origins: ['https://app.example.com'], credentials: true }), handler)
 * @throws {TypeError} An origin or name is missing or invalid, or `*` is used with credentials.
 */
export function cors<C = unknown>(options: CorsOptions<C>): Policy<C> {
  const { origins, methods, headers, exposeHeaders = EXPOSED, credentials, maxAgeSeconds } =
    readOptions('cors', options, OPTIONS)
  if (credentials) {
    if (origins === '*') {
      throw new TypeError("cors: browsers reject '*' with credentials; name the origins")
    }
    const lists = [...methods ?? [], ...headers ?? [], ...exposeHeaders]
    if (lists.includes('*')) {
      throw new TypeError("cors: with credentials, '*' is no wildcard; name methods and headers")
    }
  }
  const names = Array.isArray(origins) ? new Set<string>(origins) : undefined
  const allows = (origin: string, request: HttpRequest<C>): boolean =>
    (typeof origins === 'function' ? origins(origin, request) : names?.has(origin) ?? true)

  // A function without credentials may allow everybody, because nobody reads a user's data then.
  const vouches = names !== undefined || (typeof origins === 'function' && credentials)
  const known = (request: HttpRequest<C>): HttpRequest<C> => {
    const { origin } = request.headers
    const isKnown = vouches && typeof origin === 'string' && allows(origin, request)
    return isKnown ? withContext(request, { [KNOWN_ORIGIN]: true }) : request
  }

  const finish = (request: HttpRequest<C>, sent: ResponseHeaders): boolean => {
    if (origins !== '*') addVary(sent, 'Origin')
    const origin = request.headers['origin']
    if (typeof origin !== 'string' || origin.length > LONGEST_ORIGIN || !allows(origin, request)) {
      return false
    }
    sent['access-control-allow-origin'] = origins === '*' ? '*' : origin
    if (credentials) sent['access-control-allow-credentials'] = 'true'
    return true
  }

  const preflight = (request: HttpRequest<C>, found: HttpResponse | undefined): HttpResponse => {
    const answer: HttpResponse = { status: 200, headers: { ...found?.headers }, body: '' }
    addVary(answer.headers, 'Access-Control-Request-Method', 'Access-Control-Request-Headers')
    if (!finish(request, answer.headers)) return answer
    const allowed = methods ?? methodsOf(answer.headers['allow'])
    answer.headers['access-control-allow-methods'] = allowed.join(', ')
    const asked = headers?.join(', ') ?? tokens(request.headers['access-control-request-headers'])
    if (asked !== '') answer.headers['access-control-allow-headers'] = asked
    if (maxAgeSeconds !== undefined) {
      answer.headers['access-control-max-age'] = String(maxAgeSeconds)
    }
    return answer
  }

  const policy: Policy<C> = (request, next) => {
    if (isPreflight(request)) {
      const ask: Handler<C> = (inner) => askResource(inner, next, preflight)
      return withHeaders(ask, request, (sent) => { finish(request, sent) })
    }
    return withHeaders(next, known(request), (sent) => {
      if (!finish(request, sent) || exposeHeaders.length === 0) return
      sent['access-control-expose-headers'] = exposeHeaders.join(', ')
    })
  }
  return Object.assign(policy, { place: PLACE })
}

type Answer = HttpResponse | undefined

function isPreflight({ method, headers }: HttpRequest<unknown>): boolean {
  if (method !== 'OPTIONS' || headers['origin'] === undefined) return false
  return headers['access-control-request-method'] !== undefined
}

function methodsOf(allow: string | string[] | undefined): readonly string[] {
  if (typeof allow !== 'string') return METHODS
  return allow.split(', ').filter((method) => !NEVER.includes(method))
}

/** Sends OPTIONS to the resource. If that fails, the preflight gets this error. */
async function askResource<C>(
  request: HttpRequest<C>, next: Handler<C>,
  preflight: (request: HttpRequest<C>, found: Answer) => HttpResponse,
): Promise<Answer> {
  try {
    const found = await next(request)
    return found && preflight(request, found)
  } catch (error) {
    const { status } = readFailure(error)
    // The resource requires credentials, and a preflight has none.
    if (status === 401 || status === 403) return preflight(request, undefined)
    throw error
  }
}

function tokens(header: string | readonly string[] | undefined): string {
  const text = header === undefined ? '' : headerText(header)
  const names = text.split(',').map((name) => name.trim()).filter((name) => name !== '')
  return text.length <= LONGEST && names.every(isToken) ? names.join(', ') : ''
}
