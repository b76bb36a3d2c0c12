import type { HttpRequest } from '../http/exchange.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import type { Principal } from '../http/principal.js'

/** Credentials longer than this are refused unread, in characters. */
export const LONGEST_CREDENTIALS = 8192

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

/** Returns the value of a field that may occur once only; `''` if it occurs more often. */
export function single(field: string | string[] | undefined): Credentials {
  if (field === undefined || typeof field === 'string') return field
  return field.length === 1 ? field[0] : field.length === 0 ? undefined : ''
}

/**
 * Returns the credentials in an Authorization field of a scheme (RFC 9110 section 11.4; the name in
 * any case). `undefined` if the field is missing or names another scheme; `''` if they are missing
 * or too long.
 */
export function authorization(request: HttpRequest, scheme: string): Credentials {
  const field = request.headers['authorization']
  if (field === undefined) return undefined
  const text = single(field) ?? ''
  const end = scheme.length
  if (text.slice(0, end).toLowerCase() !== scheme) return undefined
  if (text.length === end) return ''
  if (text[end] !== ' ') return undefined
  return text.length - end > LONGEST_CREDENTIALS ? '' : text.slice(end).trim()
}
