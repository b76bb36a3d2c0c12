import { withHeaders } from '../http/response-headers.js'
import { isPending, type MaybePromise } from '../runtime/maybe-promise.js'
import type {
  Handler, HttpRequest, HttpResponse, Operation, Policy, PolicyPlace, ResponseHeaders,
} from '../http/exchange.js'
import { KNOWN_ORIGIN } from '../http/cross-site.js'
import { withContext } from '../http/derived-request.js'
import { readFailure } from '../http/failure.js'
import { addVary } from '../http/fields/fields.js'
import { checkNames } from '../runtime/option-names.js'
import { fieldText, isToken } from '../http/fields/reader.js'
import { addResponseHeaders } from '../openapi/merge.js'
import { fields as describeFields } from '../openapi/fields.js'
import { header } from '../openapi/operation.js'

/** Options of `cors`. */
export interface CorsOptions<C = unknown> {
  /** `*` for any origin, a list such as `https://app.example.com`, or a function that decides. */
  readonly origins: '*' | readonly string[] | ((origin: string, request: HttpRequest<C>) => boolean)
  /**
   * Methods that a preflight allows. Default: the methods of the resource. If it requires
   * credentials, which a preflight never has: GET, HEAD, POST, PUT, PATCH and DELETE.
   */
  readonly methods?: readonly string[]
  /** Request fields that a preflight allows. Default: those that it asks for. */
  readonly headers?: readonly string[]
  /**
   * Fields of answers that pages may read, beside the few that they always may. Default: the fields
   * that longhaul sends.
   */
  readonly exposeHeaders?: readonly string[]
  /**
   * If `true`, requests may carry cookies. Requires origins by name.
   * @default false
   */
  readonly credentials?: boolean
  /**
   * How long browsers keep the answer to a preflight, in seconds, up to 86,400. Default: that of
   * the browser, about 5 s.
   */
  readonly maxAgeSeconds?: number
}

const KNOWN = {
  origins: 0, methods: 0, headers: 0, exposeHeaders: 0, credentials: 0, maxAgeSeconds: 0,
} satisfies Record<keyof CorsOptions, 0>
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']
/** What no page can send. */
const NEVER = ['TRACE', 'CONNECT']
const EXPOSED = [
  'Accept-Patch', 'Accept-Ranges', 'Allow', 'Content-Disposition', 'Content-Location', 'Content-Range', 'Deprecation', 'ETag', 'Link', 'Location',
  'Preference-Applied', 'RateLimit', 'RateLimit-Policy', 'Retry-After', 'Sunset', 'WWW-Authenticate', 'X-Request-Id',
]
const ORIGIN = /^[a-z][a-z0-9+.-]*:\/\/[^/\s,*?#A-Z]+$/
/** More than this of what a preflight asks for is not said back. */
const LONGEST = 2048
/**
 * An origin is a scheme, a name of up to 253 characters and a port. What is longer is none,
 * whatever a function would say of it.
 */
const LONGEST_ORIGIN = 512

const TOLD = {
  'Access-Control-Allow-Origin': header('The origin whose pages may read this (Fetch, section 3.2.3)'),
  'Access-Control-Expose-Headers': header('The fields that they may read'),
}
const CREDENTIALS = {
  'Access-Control-Allow-Credentials': header('`true`: requests may carry cookies'),
}

const PLACE: PolicyPlace = {
  name: 'cors', behind: { requestId: 'what is answered here would have no id' },
}

/**
 * Lets pages of other origins read answers, errors included. Answers their preflights with 200 and
 * without credentials (SPEC 4.1; the Fetch standard, section 3.2). Put it in front of
 * `authenticate`. Other OPTIONS requests pass. `crossSite` behind it accepts origins that are
 * allowed by name, or by a function with `credentials`. An origin that is not allowed gets no CORS
 * fields, so its browser hides the answer. Answers that depend on the origin have `Vary: Origin`.
 *
 * @example
 * compose(cors({ origins: ['https://app.example.com'], credentials: true }), handler)
 *
 * @throws {TypeError} There are no origins, an origin or name is not valid, or `*` is used with
 * credentials.
 */
export function cors<C = unknown>(options: CorsOptions<C>): Policy<C> {
  checkNames('cors', options, KNOWN)
  check(options)
  const { origins, methods, headers, exposeHeaders = EXPOSED, credentials = false, maxAgeSeconds } = options
  const names = Array.isArray(origins) ? new Set<string>(origins) : undefined
  const allows = (origin: string, request: HttpRequest<C>): boolean =>
    (typeof origins === 'function' ? origins(origin, request) : names?.has(origin) ?? true)

  // A function without credentials may let everybody in, who then reads nothing of a user's.
  const vouches = names !== undefined || (typeof origins === 'function' && credentials)
  const known = (request: HttpRequest<C>): HttpRequest<C> => {
    const { origin } = request.headers
    return vouches && typeof origin === 'string' && allows(origin, request) ? withContext(request, { [KNOWN_ORIGIN]: true }) : request
  }

  const finish = (request: HttpRequest<C>, fields: ResponseHeaders): boolean => {
    if (origins !== '*') addVary(fields, 'Origin')
    const origin = request.headers['origin']
    if (typeof origin !== 'string' || origin.length > LONGEST_ORIGIN || !allows(origin, request)) {
      return false
    }
    fields['access-control-allow-origin'] = origins === '*' ? '*' : origin
    if (credentials) fields['access-control-allow-credentials'] = 'true'
    return true
  }

  const preflight = (request: HttpRequest<C>, found: HttpResponse | undefined): HttpResponse => {
    const answer: HttpResponse = { status: 200, headers: { ...found?.headers }, body: '' }
    addVary(answer.headers, 'Access-Control-Request-Method', 'Access-Control-Request-Headers')
    if (!finish(request, answer.headers)) return answer
    const { allow } = answer.headers
    const allowed = methods ?? (typeof allow === 'string' ? allow.split(', ').filter((method) => !NEVER.includes(method)) : METHODS)
    answer.headers['access-control-allow-methods'] = allowed.join(', ')
    const asked = headers?.join(', ') ?? tokens(request.headers['access-control-request-headers'])
    if (asked !== '') answer.headers['access-control-allow-headers'] = asked
    if (maxAgeSeconds !== undefined) answer.headers['access-control-max-age'] = String(maxAgeSeconds)
    return answer
  }

  const policy: Policy<C> = (request, next) => {
    const asked = request.headers
    if (request.method === 'OPTIONS' && asked['origin'] !== undefined && asked['access-control-request-method'] !== undefined) {
      return withHeaders((inner) => askResource(inner, next, preflight), request, (fields) => { finish(request, fields) })
    }
    return withHeaders(next, known(request), (fields) => {
      if (finish(request, fields) && exposeHeaders.length > 0) fields['access-control-expose-headers'] = exposeHeaders.join(', ')
    })
  }
  const told = {
    ...TOLD, ...credentials && CREDENTIALS, ...origins !== '*' && describeFields('Vary'),
  }
  return Object.assign(policy, { place: PLACE, describe: (operation: Operation) => addResponseHeaders(operation, told) })
}

type Answer = HttpResponse | undefined

/**
 * Hears what the resource says of OPTIONS. What is not there, or takes no more, is so for a
 * preflight too.
 */
function askResource<C>(
  request: HttpRequest<C>, next: Handler<C>, preflight: (request: HttpRequest<C>, found: Answer) => HttpResponse,
): MaybePromise<Answer> {
  const good = (found: Answer): Answer => found && preflight(request, found)
  const bad = (error: unknown): Answer => {
    const { status } = readFailure(error)
    // It wants to know who asks, and a preflight can't say.
    if (status === 401 || status === 403) return preflight(request, undefined)
    throw error
  }
  try {
    const answer = next(request)
    return isPending(answer) ? answer.then(good, bad) : good(answer)
  } catch (error) {
    return bad(error)
  }
}

/** The names in a list that came in; `''` where there are none, or it is none. */
function tokens(field: string | readonly string[] | undefined): string {
  const text = field === undefined ? '' : fieldText(field)
  const names = text.split(',').map((name) => name.trim()).filter((name) => name !== '')
  return text.length <= LONGEST && names.every(isToken) ? names.join(', ') : ''
}

function check<C>({ origins, methods = [], headers = [], exposeHeaders = [], credentials = false, maxAgeSeconds = 0 }: CorsOptions<C>): void {
  if (origins === '*') {
    if (credentials) {
      throw new TypeError("cors: browsers refuse '*' with credentials; name the origins")
    }
  } else if (Array.isArray(origins)) {
    if (origins.length === 0) {
      throw new TypeError("cors: there are no origins; name some, or '*' for any")
    }
    for (const origin of origins as readonly unknown[]) {
      if (typeof origin !== 'string' || !ORIGIN.test(origin)) {
        throw new TypeError(`cors: ${JSON.stringify(origin)} is no origin as browsers send it, such as https://app.example.com, lower-case and without a path`)
      }
    }
  } else if (typeof origins !== 'function') throw new TypeError("cors: origins must be '*', a list of origins, or a function")
  for (const name of [...methods, ...headers, ...exposeHeaders]) {
    if (!isToken(name)) {
      throw new TypeError(`cors: ${JSON.stringify(name)} is no name of a method or a field`)
    }
    if (name === '*' && credentials) throw new TypeError("cors: with credentials, '*' stands for nothing but itself; name methods and fields")
  }
  if (!(Number.isInteger(maxAgeSeconds) && maxAgeSeconds >= 0 && maxAgeSeconds <= 86_400)) {
    throw new TypeError('cors: maxAgeSeconds must be a whole number of seconds from 0 to 86400')
  }
}
