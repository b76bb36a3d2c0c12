import { isToken } from './reader.js'

export interface Link {
  /** A URI reference. Characters that are not allowed in one are percent-encoded. */
  readonly target: string
  readonly rel: string
  readonly [param: string]: string | undefined
}

const RELATION = /^[\x21\x23-\x5b\x5d-\x7e]+(?: [\x21\x23-\x5b\x5d-\x7e]+)*$/
const PLAIN = /^[\x20-\x7e]*$/
const NOT_IN_URI = /[^!#$&-;=?-Z_a-z~[\]%]/gu
const NOT_IN_EXTENDED = /[^!#$&+.^_`|~0-9A-Za-z-]/gu

/**
 * Returns the value of a Link header (RFC 8288), printable ASCII: targets are percent-encoded,
 * parameters quoted or, with other characters, `name*=UTF-8''…` (RFC 8187).
 */
export function linkValue(links: readonly Link[]): string {
  return links.map(oneLink).join(', ')
}

/** Maximum length of Link in bytes. Links repeat the query; clients read 8 to 16 KiB of headers. */
const MAX_PAGE_LINKS = 4096

export function pageLinkValue(links: readonly Link[]): string | undefined {
  const value = linkValue(links)
  if (value.length <= MAX_PAGE_LINKS) return value
  const next = linkValue(links.filter(({ rel }) => rel === 'next'))
  return next !== '' && next.length <= MAX_PAGE_LINKS ? next : undefined
}

function oneLink({ target, rel, ...params }: Link): string {
  if (!RELATION.test(rel)) {
    const rule = 'relation types parted by single spaces, printable ASCII without quotes'
    throw new TypeError(`linkValue: rel must be ${rule}`)
  }
  let text = `<${target.replace(NOT_IN_URI, percentEncode)}>; rel="${rel}"`
  for (const [name, value] of Object.entries(params)) {
    if (value === undefined) continue
    if (!isToken(name)) {
      throw new TypeError(`linkValue: ${JSON.stringify(name)} is no token, so no parameter's name`)
    }
    text += PLAIN.test(value)
      ? `; ${name}="${value.replace(/["\\]/g, '\\$&')}"`
      : `; ${name}*=UTF-8''${value.replace(NOT_IN_EXTENDED, percentEncode)}`
  }
  return text
}

/** Percent-encodes a character. A lone surrogate, which has no bytes, becomes U+FFFD. */
function percentEncode(char: string): string {
  let text = ''
  for (const byte of Buffer.from(char)) {
    text += `%${byte.toString(16).toUpperCase().padStart(2, '0')}`
  }
  return text
}
