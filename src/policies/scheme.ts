import type { HttpRequest } from '../http/exchange.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import type { Principal } from '../http/principal.js'

/** Credentials longer than this are refused unread, in characters. */
export const LONGEST_CREDENTIALS = 8192

/**
 * What a scheme finds in a request: credentials as text, `''` for ones that can't be any;
 * `undefined` for none at all.
 */
export type Credentials = string | undefined

/**
 * One way to tell who sent a request. Made by `bearer`, `basic`, `apiKey`, `hostUser`, or by
 * yourself.
 */
export interface Scheme<P extends Principal = Principal> {
  readonly name: string
  /** Reads the head of the request only. */
  readonly read: (request: HttpRequest) => Credentials
  /**
   * Whom they stand for; `undefined` for nobody. A failure to find out is thrown, and is not a 401.
   */
  readonly verify: (credentials: string, request: HttpRequest) => MaybePromise<P | undefined>
  /**
   * Whether results may be remembered: by the credentials, and by the `key` of the cache where
   * there is one.
   */
  readonly cacheable: boolean
  /** Whether `verify` reads the request. Default: whether it declares a second parameter. */
  readonly asksRequest?: boolean
  /**
   * The challenge of a 401 (RFC 9110 section 11.6.1); `refused`: credentials of this kind were
   * sent.
   */
  readonly challenge: (realm: string, refused: boolean) => string
  /** Its OpenAPI security scheme object, where there is one for it. */
  readonly openapi?: Readonly<Record<string, unknown>>
}

/** The value of a field that must be there once: `''` where it is there more often. */
export function single(field: string | string[] | undefined): Credentials {
  if (field === undefined || typeof field === 'string') return field
  return field.length === 1 ? field[0] : field.length === 0 ? undefined : ''
}

/**
 * What follows the name of an Authorization field's scheme (RFC 9110 section 11.4; the name in any
 * case): `undefined` when the field names another scheme or is missing, `''` when nothing or too
 * much follows.
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
