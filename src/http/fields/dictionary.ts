// The grammar of Dictionaries in Structured Fields (RFC 9651 sections 3.2 and 4.2.2).

const KEY = '[a-z*][a-z0-9_.*-]*'
const NUMBER = '-?(?:[0-9]{1,12}\\.[0-9]{1,3}|[0-9]{1,15})'
const TEXT = '"(?:[ !#-\\[\\]-~]|\\\\["\\\\])*"'
const TOKEN = '[A-Za-z*][\\w!#$%&\'*+.^`|~:/-]*'
const SEXTET = '[A-Za-z0-9+/]'
/** Padding may be missing (section 4.2.7). */
const BYTES = `:(?:${SEXTET}{4})*(?:${SEXTET}{2}(?:==)?|${SEXTET}{3}=?)?:`
const DATE = '@-?[0-9]{1,15}'
const DISPLAY_TEXT = '%"(?:[ !#$&-~]|%[0-9a-f]{2})*"'
const BARE_ITEM = `(?:${NUMBER}|${TEXT}|${TOKEN}|${BYTES}|\\?[01]|${DATE}|${DISPLAY_TEXT})`
const PARAMETERS = `(?:; *${KEY}(?:=${BARE_ITEM})?)*`
const ITEM = `${BARE_ITEM}${PARAMETERS}`
// After `( *` comes an item or the end, so that spaces can be divided in one way only.
const INNER_LIST = `\\( *(?:${ITEM}(?: +${ITEM})* *)?\\)`
/** A member: its key, its value without parameters, and its parameters. */
const MEMBER = new RegExp(`(${KEY})(?:=(${BARE_ITEM}|${INNER_LIST}))?${PARAMETERS}`, 'y')
const COMMA = /[ \t]*,[ \t]*/y
const END = /[ \t]*$/y

/**
 * Reads a dictionary. Returns the text of each value, without parameters, by its key: `?1` if there
 * is no value. The last value of a key wins. Returns `undefined` if the text is malformed.
 */
export function parseDictionary(text: string): ReadonlyMap<string, string> | undefined {
  const members = new Map<string, string>()
  let at = text.search(/[^ ]|$/)
  if (at === text.length) return members
  for (;;) {
    const member = match(MEMBER, text, at)
    if (member === undefined) return undefined
    const [all, key = '', value = '?1'] = member
    members.set(key, value)
    at += all.length
    if (match(END, text, at) !== undefined) return members
    const comma = match(COMMA, text, at)
    if (comma === undefined) return undefined
    at += comma[0].length
  }
}

/** Matches a sticky pattern at an index. */
function match(pattern: RegExp, text: string, at: number): RegExpExecArray | undefined {
  pattern.lastIndex = at
  return pattern.exec(text) ?? undefined
}
