import type { HttpRequest } from '../http/exchange.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { checkNames } from '../runtime/option-names.js'
import type { HostContext, Principal } from '../http/requester.js'
import { isToken } from '../http/fields/reader.js'
import { SecretTable } from './secret.js'

/** Credentials longer than this are refused unread, in characters. */
const LONGEST_CREDENTIALS = 8192

/**
 * Credentials of a request as text. `''` means malformed; `undefined` means that there are none.
 */
export type Credentials = string | undefined

/**
 * One kind of credentials. `bearer`, `basic`, `apiKey` and `hostUser` create such schemes; you can
 * write your own.
 */
export interface Scheme<P extends Principal = Principal> {
  readonly name: string
  /** Reads the credentials from the head of the request. */
  readonly read: (request: HttpRequest) => Credentials
  /**
   * Returns the principal of the credentials; `undefined` if they are not valid. It throws if it
   * cannot find out, which is not a 401.
   */
  readonly verify: (credentials: string, request: HttpRequest) => MaybePromise<P | undefined>
  /** If `true`, the cache of `authenticate` may keep results. */
  readonly cacheable: boolean
  /** If `true`, `verify` reads the request. Default: `true` if it declares a second parameter. */
  readonly asksRequest?: boolean
  /**
   * Returns the challenge of a 401 (RFC 9110 section 11.6.1). `refused` is `true` if the request
   * had credentials of this kind.
   */
  readonly challenge: (realm: string, refused: boolean) => string
  /** The OpenAPI security scheme object, if there is one. */
  readonly openapi?: Readonly<Record<string, unknown>>
}

/**
 * Returns the principal of a token or key; `undefined` if it is not valid. If `authenticate` has a
 * `cache`, see its `key` for what this may read of the request.
 */
export type VerifyToken<P extends Principal> = (
  token: string, request: HttpRequest,
) => MaybePromise<P | undefined>
/** Returns the principal of a name and password; `undefined` if they are not valid. */
export type VerifyPassword<P extends Principal> = (
  name: string, password: string, request: HttpRequest,
) => MaybePromise<P | undefined>

/** RFC 6750 section 2.1 (token68). */
const TOKEN68 = /^[A-Za-z0-9._~+/-]+=*$/
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$/
const VERIFY = { verify: 0 }
const API_KEY = { header: 0, query: 0, verify: 0 }
const CONTROL = /[\0-\x1f\x7f]/
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * Accepts `Authorization: Bearer <token>` (RFC 6750). `verify` is `tokens({ … })`, the function of
 * a JWT library, or your own.
 *
 * @example
 * authenticate({ schemes: [bearer({ verify: tokens({ s3cret: { subject: 'ann' } }) })] })
 *
 * @throws {TypeError} `verify` is not a function, or an option is unknown.
 */
export function bearer<P extends Principal>(options: {
  /** Returns the principal of a token, or `undefined` if it is not valid. */
  readonly verify: VerifyToken<P>,
}): Scheme<P> {
  checkNames('bearer', options, VERIFY)
  const { verify } = options
  needsVerify('bearer', verify)
  return {
    name: 'bearer', verify, cacheable: true, openapi: { type: 'http', scheme: 'bearer' },
    read: (request) => {
      const token = authorization(request, 'bearer')
      return token === undefined || TOKEN68.test(token) ? token : ''
    },
    // RFC 6750 section 3: no error code for a request that has no credentials at all.
    challenge: (realm, refused) =>
      `Bearer realm="${realm}"${refused ? ', error="invalid_token"' : ''}`,
  }
}

/**
 * Accepts `Authorization: Basic <base64 of name:password>` (RFC 7617), in UTF-8. Store passwords as
 * scrypt or argon2 hashes. Such hashes are slow on purpose, so give `authenticate` a `cache`.
 *
 * @example
 * const verify = (name: string, password: string) => (
 *   name === 'ann' && sameSecret(password, 's3cret') ? { subject: name } : undefined)
 * authenticate({ schemes: [basic({ verify })], cache: { maxEntries: 1000, ttlMs: 60_000 } })
 *
 * @throws {TypeError} `verify` is not a function, or an option is unknown.
 */
export function basic<P extends Principal>(options: {
  /** Returns the principal of a user name and password, or `undefined` if they are not valid. */
  readonly verify: VerifyPassword<P>,
}): Scheme<P> {
  checkNames('basic', options, VERIFY)
  const { verify } = options
  needsVerify('basic', verify)
  return {
    name: 'basic', cacheable: true, asksRequest: verify.length > 2, openapi: { type: 'http', scheme: 'basic' },
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
 * Accepts an API key in a header field such as `x-api-key`, or in a query parameter.
 *
 * @example
 * const verify = tokens({ k3y: { subject: 'billing' } })
 * authenticate({ schemes: [apiKey({ header: 'x-api-key', verify })] })
 *
 * @throws {TypeError} The header or query parameter is no token, `verify` is not a function, or an
 * option is unknown.
 */
export function apiKey<P extends Principal>(options: ApiKeyPlace & {
  /** Returns the principal of a key, or `undefined` if it is not valid. */
  readonly verify: VerifyToken<P>,
}): Scheme<P> {
  checkNames('apiKey', options, API_KEY)
  const { verify, ...place } = options
  needsVerify('apiKey', verify)
  const inHeader = 'header' in place
  const name = inHeader ? place.header.toLowerCase() : place.query
  if (typeof name !== 'string' || !isToken(name)) {
    throw new TypeError(
      'apiKey: name the header or the query parameter, as in { header: \'x-api-key\' }'
    )
  }
  const read = (request: HttpRequest): string | undefined => {
    if (inHeader) return single(request.headers[name])
    const values = request.query.getAll(name)
    return values.length > 1 ? '' : values[0]
  }
  return {
    name: 'apiKey', verify, cacheable: true, openapi: { type: 'apiKey', in: inHeader ? 'header' : 'query', name },
    read: (request) => {
      const key = read(request)
      return key !== undefined && (key.length > LONGEST_CREDENTIALS || CONTROL.test(key)) ? '' : key
    },
    challenge: (realm) =>
      `ApiKey realm="${realm}", in="${inHeader ? 'header' : 'query'}", name="${name}"`,
  }
}

/**
 * Trusts the host's own authentication: a session, Passport's `req.user`, a mutual TLS peer. `find`
 * returns the principal; `undefined` for an anonymous request.
 *
 * @example
 * const signedIn = authenticate({
 *   schemes: [hostUser(({ context }) => context.user && { subject: String(context.user.id) })],
 * })
 * app.use('/api', toNode(compose(signedIn, handler)))
 *
 * @throws {TypeError} `find` is not a function.
 */
export function hostUser<P extends Principal, C = HostContext>(
  find: (request: HttpRequest<C>) => MaybePromise<P | undefined>,
): Scheme<P> {
  needsVerify('hostUser', find)
  return {
    name: 'hostUser', cacheable: false,
    read: () => 'host',
    verify: (_, request) => find(request as HttpRequest<C>),
    challenge: (realm) => `Session realm="${realm}"`,
  }
}

/**
 * Creates a `verify` for a few fixed tokens or keys. Comparison time reveals at most the lengths of
 * the tokens. More than 16 are compared by digests under a salt of this process.
 *
 * @example
 * bearer({ verify: tokens({ s3cret: { subject: 'ann' } }) })
 *
 * @throws {TypeError} A token is empty, or a principal has no `subject`.
 */
export function tokens<P extends Principal>(
  table: Readonly<Record<string, P>>,
): (token: string) => P | undefined {
  const known = new SecretTable<P>()
  for (const [token, principal] of Object.entries(table)) {
    if (token === '') throw new TypeError('tokens: an empty text can be no token')
    if (typeof principal?.subject !== 'string') {
      throw new TypeError('tokens: give each token a principal, as in { subject: \'ann\' }')
    }
    known.add(token, principal)
  }
  return (token) => known.get(token)
}

function needsVerify(where: string, verify: unknown): void {
  if (typeof verify !== 'function') {
    throw new TypeError(`${where}: verify must be a function that returns the principal of valid credentials, else undefined`)
  }
}

/** Returns the value of a field that may occur once only; `''` if it occurs more often. */
function single(field: string | string[] | undefined): Credentials {
  if (field === undefined || typeof field === 'string') return field
  return field.length === 1 ? field[0] : field.length === 0 ? undefined : ''
}

/**
 * Returns the credentials in an Authorization field of a scheme (RFC 9110 section 11.4; the name in
 * any case). `undefined` if the field is missing or names another scheme; `''` if they are missing
 * or too long, or if there are several fields.
 */
function authorization(request: HttpRequest, scheme: string): Credentials {
  const field = request.headers['authorization']
  if (typeof field === 'object' && field.length > 1) return ''
  const text = single(field) ?? ''
  const end = scheme.length
  if (text.slice(0, end).toLowerCase() !== scheme) return undefined
  if (text.length === end) return ''
  if (text[end] !== ' ') return undefined
  return text.length - end > LONGEST_CREDENTIALS ? '' : text.slice(end).trim()
}
