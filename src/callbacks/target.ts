import { httpError, type HttpError } from '../http/errors.js'
import type { AddressRules } from './addresses.js'

/** Maximum length of a callback URL, in characters. */
const MAX_LENGTH = 2048
const SHAPE = /^https?:\/\/[^\s\\\0-\x20\x7f]+$/i

/**
 * Parses a callback URL. Checks the host name but not the addresses that it resolves to, which are
 * checked when connecting.
 *
 * @throws {HttpError} `invalid_callback_url` (400): not an absolute http or https URL.
 * @throws {HttpError} `callback_url_forbidden` (400): has credentials, or its host is not public.
 */
export function readTarget(text: unknown, rules: AddressRules): URL {
  if (typeof text !== 'string' || text.length > MAX_LENGTH || !URL.canParse(text)) throw invalid()
  const { protocol } = new URL(text)
  if (protocol !== 'http:' && protocol !== 'https:') {
    throw forbidden('The callback URL must begin with http:// or https://.')
  }
  // The URL parser would repair such text, and another parser might repair it differently.
  if (!SHAPE.test(text)) throw invalid()
  const url = new URL(text)
  if (
    url.username !== '' ||
    url.password !== '' ||
    /^[^/?#]*@/.test(text.slice(text.indexOf('//') + 2))
  ) {
    throw forbidden('The callback URL must not have credentials.')
  }
  const host = hostOf(url)
  if (host === '' || host.endsWith('.')) throw invalid()
  if (rules.refuses(host)) {
    const others = 'or of one that httpSender({ allow }) names'
    throw forbidden(`The callback URL must be of a public host, ${others}.`)
  }
  return url
}

/** Returns the host without the brackets of an IPv6 address and without a trailing dot. */
export function hostOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$/g, '').replace(/\.$/, '')
}

function invalid(): HttpError {
  return httpError('invalid_callback_url')
}

function forbidden(message: string): HttpError {
  return httpError('callback_url_forbidden', { message })
}
