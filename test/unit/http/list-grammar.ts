// The grammar of list fields, written the slow and obvious way, to compare the parsers with.

export const TOKEN = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
export const QUOTED = '"(?:[\\t \\x21\\x23-\\x5b\\x5d-\\x7e\\x80-\\uffff]|\\\\[\\t \\x21-\\x7e\\x80-\\uffff])*"'
export const OWS = '[ \\t]*'
export const ASSIGNED = `(?:${OWS}=${OWS}(${TOKEN}|${QUOTED})?)?`
export const PARAMETERS = `(?:${OWS};${OWS}(?:${TOKEN}${ASSIGNED})?)*`

/** The members of a list, cut at commas outside quoted strings, without white space around them. */
export function members(text: string): string[] {
  const found = ['']
  let quoted = false
  for (let at = 0; at < text.length; at++) {
    const char = text.charAt(at)
    if (char === ',' && !quoted) {
      found.push('')
      continue
    }
    if (char === '"') quoted = !quoted
    found.push(`${found.pop() ?? ''}${char}`)
    if (char === '\\' && quoted) found.push(`${found.pop() ?? ''}${text.charAt(++at)}`)
  }
  return found.map((member) => member.replace(/^[ \t]+|[ \t]+$/g, ''))
}

/** The entity tags of a list, cut at commas outside quotes: they have no escapes (RFC 9110 section 8.8.3). */
export function entityTags(field: string): string[] {
  const parts: string[] = ['']
  let quoted = false
  for (const char of field) {
    if (char === '"') quoted = !quoted
    if (char === ',' && !quoted) parts.push('')
    else parts.push((parts.pop() ?? '') + char)
  }
  return parts
    .map((part) => part.replace(/^[ \t]+|[ \t]+$/g, ''))
    .filter((part) => /^(?:W\/)?"[^\0-\x20"\x7f]*"$/.test(part))
}

export function unquote(word: string | undefined): string {
  if (word === undefined) return ''
  return word.startsWith('"') ? word.slice(1, -1).replace(/\\(.)/gs, '$1') : word
}

/** The parameters of a text that matches PARAMETERS; the first of a name wins. */
export function parameters(text: string): Record<string, string> {
  const found = new Map<string, string>()
  for (const match of text.matchAll(new RegExp(`;${OWS}(?:(${TOKEN})${ASSIGNED})?`, 'g'))) {
    const name = match[1]?.toLowerCase()
    if (name !== undefined && !found.has(name)) found.set(name, unquote(match[2]))
  }
  return Object.fromEntries(found)
}
