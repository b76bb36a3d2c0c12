import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { HttpRequest } from '../http/exchange.js'
import type { HostContext, Principal } from '../http/principal.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { func, readOptions, text } from '../runtime/options.js'

const LONGEST_CREDENTIALS = 8192

/** Credentials of a request. `''` means malformed; `undefined` means that there are none. */
export type Credentials = string | undefined

/** One kind of credentials, made by `bearer`, `basic`, `apiKey`, `hostUser` or your own code. */
export interface Scheme<P extends Principal = Principal> {
  readonly name: string
  /** Reads the credentials from the headers or the query of the request. */
  readonly read: (request: HttpRequest) => Credentials
  /**
   * Returns the principal; `undefined` if the credentials are not valid. Throws if they cannot be
   * verified now.
   */
  readonly verify: (credentials: string, request: HttpRequest) => MaybePromise<P | undefined>
  /** If `true`, the cache of `authenticate` may keep results. */
  readonly cacheable: boolean
  /**
   * Returns the challenge of a 401 (RFC 9110 section 11.6.1). `rejected`: the request had
   * credentials of this kind.
   */
  readonly challenge: (realm: string, rejected: boolean) => string
  /** The OpenAPI security scheme object, if there is one. */
  readonly openapi?: Readonly<Record<string, unknown>>
}

/** Returns the principal of a token or key; `undefined` if it is not valid. */
export type VerifyToken<P extends Principal> = (
  token: string, request: HttpRequest,
) => MaybePromise<P | undefined>
export type VerifyPassword<P extends Principal> = (
  name: string, password: string, request: HttpRequest,
) => MaybePromise<P | undefined>

const TOKEN68 = /^[A-Za-z0-9._~+/-]+=*$/
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$/
const VERIFY = { verify: func({ required: true }) }
const PLACE = text({
  pattern: /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/, expects: 'the name of a header or query parameter',
})
const API_KEY = { header: PLACE, query: PLACE, ...VERIFY }
const CONTROL = /[\0-\x1f\x7f]/
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * Accepts `Authorization: Bearer <token>` (RFC 6750).
 * @example
 * authenticate({ schemes: [bearer({ verify: tokens({ s3cret: { subject: 'ann' } }) })] })
 * @throws {TypeError} `verify` is not a function, or an option is unknown.
 */
export function bearer<P extends Principal>(options: {
  /** Returns the principal of a token or key, or `undefined` if it is not valid. */
  readonly verify: VerifyToken<P>,
}): Scheme<P> {
  const { verify } = readOptions('bearer', options, VERIFY)
  return {
    name: 'bearer', verify, cacheable: true, openapi: { type: 'http', scheme: 'bearer' },
    read: (request) => {
      const token = authorization(request, 'bearer')
      return token === undefined || TOKEN68.test(token) ? token : ''
    },
    // RFC 6750 section 3: no error code for a request that has no credentials at all.
    challenge: (realm, rejected) =>
      `Bearer realm="${realm}"${rejected ? ', error="invalid_token"' : ''}`,
  }
}

/**
 * Accepts `Authorization: Basic <base64 of name:password>` (RFC 7617), in UTF-8. Store passwords as
 * scrypt or argon2 hashes. Those are slow on purpose, so give `authenticate` a `cache`.
 * @example
 * const verify = (name: string, password: string) => (
 *   name === 'ann' && sameSecret(password, 's3cret') ? { subject: name } : undefined)
 * authenticate({ schemes: [basic({ verify })], cache: { maxEntries: 1000, ttlMs: 60_000 } })
 * @throws {TypeError} `verify` is not a function, or an option is unknown.
 */
export function basic<P extends Principal>(options: {
  /** Returns the principal of a user name and password, or `undefined` if they are not valid. */
  readonly verify: VerifyPassword<P>,
}): Scheme<P> {
  const { verify } = readOptions('basic', options, VERIFY)
  return {
    name: 'basic', cacheable: true, openapi: { type: 'http', scheme: 'basic' },
    read: (request) => {
      const text = authorization(request, 'basic')
      return text === undefined ? undefined : decodeBasic(text)
    },
    verify: (credentials, request) => {
      const colon = credentials.indexOf(':')
      return verify(credentials.slice(0, colon), credentials.slice(colon + 1), request)
    },
    challenge: (realm) => `Basic realm="${realm}", charset="UTF-8"`,
  }
}

function decodeBasic(text: string): string {
  if (!BASE64.test(text)) return ''
  try {
    const decoded = utf8.decode(Buffer.from(text, 'base64'))
    return decoded.includes(':') && !CONTROL.test(decoded) ? decoded : ''
  } catch {
    return ''
  }
}

/** The place of an API key. Prefer a header: a query ends up in logs and browser histories. */
export type ApiKeyPlace = { readonly header: string } | { readonly query: string }

/**
 * Accepts an API key in a header such as `x-api-key`, or in a query parameter.
 * @example
 * const verify = tokens({ k3y: { subject: 'billing' } })
 * authenticate({ schemes: [apiKey({ header: 'x-api-key', verify })] })
 * @throws {TypeError} The header or parameter is no token, or an option is invalid or unknown.
 */
export function apiKey<P extends Principal>(options: ApiKeyPlace & {
  /** Returns the principal of a token or key, or `undefined` if it is not valid. */
  readonly verify: VerifyToken<P>,
}): Scheme<P> {
  const { header, query, verify } = readOptions(
    'apiKey', options as { header?: string, query?: string, verify: VerifyToken<P> }, API_KEY,
  )
  const name = header?.toLowerCase() ?? query
  if (name === undefined) {
    throw new TypeError("apiKey: name the header or the query parameter, such as header: 'x-api-key'")
  }
  const place = header === undefined ? 'query' : 'header'
  const read = (request: HttpRequest): Credentials => {
    if (header !== undefined) return single(request.headers[name])
    const values = request.query.getAll(name)
    return values.length > 1 ? '' : values[0]
  }
  return {
    name: 'apiKey', verify, cacheable: true, openapi: { type: 'apiKey', in: place, name },
    read: (request) => {
      const key = read(request)
      return key !== undefined && (key.length > LONGEST_CREDENTIALS || CONTROL.test(key)) ? '' : key
    },
    challenge: (realm) => `ApiKey realm="${realm}", in="${place}", name="${name}"`,
  }
}

/**
 * Trusts the authentication of your framework: a session, Passport's `req.user`, a mutual TLS peer.
 * `find` returns the principal; `undefined` for an anonymous request.
 * @example
 * const signedIn = authenticate({
 *   schemes: [hostUser(({ context }) => context.user && { subject: String(context.user.id) })],
 * })
 * app.use('/api', toNode(compose(signedIn, handler)))
 * @throws {TypeError} `find` is not a function.
 */
export function hostUser<P extends Principal, C = HostContext>(
  find: (request: HttpRequest<C>) => MaybePromise<P | undefined>,
): Scheme<P> {
  if (typeof find !== 'function') throw new TypeError('hostUser: find must be a function')
  return {
    name: 'hostUser', cacheable: false,
    read: () => 'host',
    verify: (_, request) => find(request as HttpRequest<C>),
    challenge: (realm) => `Session realm="${realm}"`,
  }
}

/**
 * Creates a `verify` for some fixed tokens or keys. The time of a comparison reveals nothing.
 * @example
 * bearer({ verify: tokens({ s3cret: { subject: 'ann' } }) })
 * @throws {TypeError} A token is empty, or a principal has no `subject`.
 */
export function tokens<P extends Principal>(
  table: Readonly<Record<string, P>>,
): (token: string) => P | undefined {
  const all = Object.entries(table)
  for (const [token, principal] of all) {
    if (token === '') throw new TypeError('tokens: a token must not be an empty string')
    if (typeof principal?.subject !== 'string') {
      throw new TypeError("tokens: give each token a principal, as in { subject: 'ann' }")
    }
  }
  // At first use, because a Worker has no random salt while its module loads.
  let known: Map<string, P> | undefined
  return (token) => {
    known ??= new Map(all.map(([each, principal]) => [secretDigest(each), principal]))
    return known.get(secretDigest(token))
  }
}

let drawn: string | undefined

function salt(): string {
  return drawn ??= randomBytes(32).toString('base64url')
}

/** Returns a digest under a salt of this process. It replaces a secret in maps and caches. */
export function secretDigest(secret: string): string {
  return hash('sha256', salt() + secret, 'base64url')
}

/**
 * Compares two secrets, for your own `verify`. The time reveals at most their lengths.
 * @example
 * sameSecret(String(request.headers['x-api-key']), 's3cret')
 */
export function sameSecret(a: string, b: string): boolean {
  return timingSafeEqual(hash('sha256', salt() + a, 'buffer'), hash('sha256', salt() + b, 'buffer'))
}

/** Returns the value of a header that may occur once only; `''` if it occurs more often. */
function single(header: string | string[] | undefined): Credentials {
  if (header === undefined || typeof header === 'string') return header
  return header.length === 1 ? header[0] : header.length === 0 ? undefined : ''
}

/**
 * Returns the credentials in Authorization (RFC 9110 section 11.4). `undefined` if the header is
 * missing or names another scheme; `''` if the credentials are malformed.
 */
function authorization(request: HttpRequest, scheme: string): Credentials {
  const header = request.headers['authorization']
  if (typeof header === 'object' && header.length > 1) return ''
  const text = single(header) ?? ''
  const end = scheme.length
  if (text.slice(0, end).toLowerCase() !== scheme) return undefined
  if (text.length === end) return ''
  if (text[end] !== ' ') return undefined
  return text.length - end > LONGEST_CREDENTIALS ? '' : text.slice(end).trim()
}
