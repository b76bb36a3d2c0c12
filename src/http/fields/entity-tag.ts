import { COMMA, QUOTE } from '../../runtime/ascii.js'
import { fieldText } from './reader.js'

/**
 * Returns true if a list of entity tags (If-Match, If-None-Match) has `etag` (RFC 9110 sections
 * 8.8.3 and 13.1). `strong`: both must be strong and equal. `weak`: equal except for `W/`. A lone
 * `*` matches every `etag`, but not `undefined`, which means that there is no representation.
 * Malformed members match nothing. Takes linear time.
 *
 * @param field - the header as received; `undefined` matches nothing
 * @param etag - the current entity tag with its quotes, such as `"a1"` or `W/"a1"`
 */
export function etagMatches(
  field: string | readonly string[] | undefined,
  etag: string | undefined,
  comparison: 'strong' | 'weak',
): boolean {
  if (field === undefined || etag === undefined) return false
  if (field === etag) return comparison === 'weak' || !isWeak(etag)
  const text = fieldText(field)
  if (text.trim() === '*') return true
  if (comparison === 'strong' && isWeak(etag)) return false
  return names(text, isWeak(etag) ? etag.slice(2) : etag, comparison === 'weak')
}

function isWeak(etag: string): boolean {
  return etag.startsWith('W/')
}

function names(text: string, opaque: string, weakToo: boolean): boolean {
  let at = 0
  while (at < text.length) {
    at = skipBlank(text, at)
    const weak = text.startsWith('W/', at)
    const start = weak ? at + 2 : at
    const end = tagEnd(text, start)
    const next = skipBlank(text, end)
    const whole = end > start && (next >= text.length || text.charCodeAt(next) === COMMA)
    const matches = whole && (weakToo || !weak) && end - start === opaque.length
    if (matches && text.startsWith(opaque, start)) return true
    at = whole ? next + 1 : memberEnd(text, start)
  }
  return false
}

function skipBlank(text: string, from: number): number {
  let at = from
  while (text.charCodeAt(at) === 0x20 || text.charCodeAt(at) === 0x09) at++
  return at
}

/** Returns the index after the quoted tag that starts at `from`; `from` if there is none. */
function tagEnd(text: string, from: number): number {
  if (text.charCodeAt(from) !== QUOTE) return from
  for (let at = from + 1; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) return at + 1
    if (code < 0x21 || code === 0x7f) return from
  }
  return from
}

/** Returns the index after the next comma outside quotes. Entity tags have no escapes. */
function memberEnd(text: string, from: number): number {
  let quoted = false
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) quoted = !quoted
    else if (code === COMMA && !quoted) return at + 1
  }
  return text.length
}
