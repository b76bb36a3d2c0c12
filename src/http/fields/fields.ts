import type { ResponseHeaders } from '../exchange.js'

const UNSAFE = /[^\t\x20-\x7e\x80-\xff]/

/**
 * Adds names to the Vary header, in place. Does not repeat a name that is present in any case. `*`
 * includes all names and stays alone (RFC 9110 section 12.5.5).
 */
export function addVary(headers: ResponseHeaders, ...names: readonly string[]): void {
  const present = headers['vary']
  if (present === undefined) {
    headers['vary'] = names.includes('*') ? '*' : names.join(', ')
    return
  }
  const listed = (typeof present === 'string' ? present : present.join(',')).split(',')
  const byName = new Map<string, string>()
  for (const name of [...listed, ...names]) {
    const text = name.trim()
    const key = text.toLowerCase()
    if (text !== '' && !byName.has(key)) byName.set(key, text)
  }
  headers['vary'] = byName.has('*') ? '*' : [...byName.values()].join(', ')
}

/**
 * Returns true if a text can be sent as the value of a header field: no line breaks or other
 * controls, and nothing above U+00FF.
 */
export function isFieldValue(text: string): boolean {
  return !UNSAFE.test(text)
}
