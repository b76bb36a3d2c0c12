import { httpError, type HttpError } from '../http/errors.js'
import type { AddressRules } from './addresses.js'

/** The longest URL that is taken, in characters. */
const MAX_LENGTH = 2048
const SHAPE = /^https?:\/\/[^\s\\\0-\x20\x7f]+$/i

/**
 * Reads a callback URL as it is going to be called. Throws `invalid_callback_url` for what is no
 * absolute http(s) URL, and `callback_url_forbidden` for one with credentials or of a host that is
 * not public. What a name resolves to is another question, to be asked when connecting.
 */
export function readTarget(text: unknown, rules: AddressRules): URL {
  if (typeof text !== 'string' || text.length > MAX_LENGTH || !URL.canParse(text)) throw invalid()
  const { protocol } = new URL(text)
  if (protocol !== 'http:' && protocol !== 'https:') throw forbidden('The callback URL must begin with http:// or https://.')
  // A parser mends more than this, and whoever reads the URL after us may mend it in another way.
  if (!SHAPE.test(text)) throw invalid()
  const url = new URL(text)
  if (url.username !== '' || url.password !== '' || /^[^/?#]*@/.test(text.slice(text.indexOf('//') + 2))) {
    throw forbidden('The callback URL must not have credentials.')
  }
  const host = hostOf(url)
  if (host === '' || host.endsWith('.')) throw invalid()
  if (rules.refuses(host)) throw forbidden('The callback URL must be of a public host.')
  return url
}

/** The host without the brackets of an IPv6 address and without the dot of the root. */
export function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')
}

function invalid(): HttpError {
  return httpError('invalid_callback_url')
}

function forbidden(message: string): HttpError {
  return httpError('callback_url_forbidden', { message })
}
