// The grammar of list fields once more, for any text: the one of the tests is a regular expression
// that takes for ever over some.
import { ASSIGNED, members, TOKEN, unquote } from '../../unit/http/list-grammar.js'

/** One member of a list, by its parts. */
export interface Item {
  /** As sent. */
  readonly name: string
  readonly value: string
  /** The first of a name, lower case, wins. */
  readonly params: Record<string, string>
}

const PART = new RegExp(`^(${TOKEN})${ASSIGNED}$`)

/**
 * The members that are well-formed; `head` is what stands before the parameters, `undefined`: a
 * name and perhaps a value.
 */
export function items(text: string, head: RegExp = PART): Item[] {
  return members(text).flatMap((member) => {
    const [first = '', ...rest] = parts(member)
    const match = head.exec(first)
    const params = new Map<string, string>()
    for (const part of rest) {
      const found = PART.exec(part)
      const name = found?.[1]?.toLowerCase()
      if (part !== '' && name === undefined) return []
      if (name !== undefined && !params.has(name)) params.set(name, unquote(found?.[2]))
    }
    return match === null
      ? []
      : [{ name: match[1] ?? '', value: unquote(match[2]), params: Object.fromEntries(params) }]
  })
}

/** Cut at semicolons outside quoted strings, without white space around. */
function parts(member: string): string[] {
  const found: string[] = []
  let part = ''
  let quoted = false
  for (let at = 0; at < member.length; at++) {
    const char = member.charAt(at)
    if (char === ';' && !quoted) {
      found.push(part)
      part = ''
      continue
    }
    if (char === '"') quoted = !quoted
    part += char
    if (char === '\\' && quoted) part += member.charAt(++at)
  }
  return [...found, part].map((each) => each.replace(/^[ \t]+/, '').replace(/[ \t]+$/, ''))
}
