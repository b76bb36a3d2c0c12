import { BACKSLASH, COMMA, EQUALS, QUOTE, SPACE, TAB } from '../../runtime/text.js'

const SEMICOLON = 0x3b
const DELETE = 0x7f

const TOKEN_CHAR = /[\w!#$%&'*+.^`|~-]/
const TOKEN_CHARS = Uint8Array.from(
  { length: 128 }, (_, code) => Number(TOKEN_CHAR.test(String.fromCharCode(code))),
)

function isTokenChar(code: number): boolean {
  return code < 128 && TOKEN_CHARS[code] === 1
}

function isControl(code: number): boolean {
  return (code < SPACE && code !== TAB) || code === DELETE
}

/** Returns true if `text` is a token (RFC 9110 section 5.6.2). */
export function isToken(text: string): boolean {
  for (let at = 0; at < text.length; at++) if (!isTokenChar(text.charCodeAt(at))) return false
  return text.length > 0
}

/** Reads a list-based header (RFC 9110 section 5.6) in linear time. */
export class HeaderReader {
  at = 0

  constructor(readonly text: string) {}

  get done(): boolean { return this.at >= this.text.length }

  space(): void {
    let code = this.text.charCodeAt(this.at)
    while (code === SPACE || code === TAB) code = this.text.charCodeAt(++this.at)
  }

  eat(code: number): boolean {
    if (this.text.charCodeAt(this.at) !== code) return false
    this.at++
    return true
  }

  token(): string {
    const start = this.at
    while (isTokenChar(this.text.charCodeAt(this.at))) this.at++
    return this.text.slice(start, this.at)
  }

  /** Reads a token or a quoted string; `''` if there is none, `undefined` if it is malformed. */
  word(): string | undefined {
    return this.text.charCodeAt(this.at) === QUOTE ? this.#quoted() : this.token()
  }

  /**
   * Reads `; name=value; flag` after the name of an item. Names are lower-case, and the first
   * parameter of a name wins. Returns `undefined` if the parameters are malformed.
   */
  parameters(): Map<string, string> | undefined {
    const found = new Map<string, string>()
    for (;;) {
      this.space()
      if (!this.eat(SEMICOLON)) return found
      this.space()
      const name = this.token().toLowerCase()
      if (name === '') continue
      const value = this.assigned()
      if (value === undefined) return undefined
      if (!found.has(name)) found.set(name, value)
    }
  }

  /** Reads the value after an optional `=`; `''` without one, `undefined` if it is malformed. */
  assigned(): string | undefined {
    this.space()
    if (!this.eat(EQUALS)) return ''
    this.space()
    return this.word()
  }

  itemEnds(): boolean {
    this.space()
    return this.done || this.eat(COMMA)
  }

  /** Reads the items of the list. Skips those that `read` rejects or does not read to their end. */
  items<T>(read: () => T | undefined): T[] {
    const found: T[] = []
    while (!this.done) {
      if (this.itemEnds()) continue
      const item = read()
      if (item === undefined || !this.itemEnds()) this.skipItem()
      else found.push(item)
    }
    return found
  }

  /** Skips all up to the next comma outside a quoted string. An unclosed quote hides the rest. */
  skipItem(): void {
    let quoted = false
    while (!this.done) {
      const code = this.text.charCodeAt(this.at++)
      if (code === QUOTE) quoted = !quoted
      else if (quoted && code === BACKSLASH) this.at++
      else if (!quoted && code === COMMA) return
    }
  }

  #quoted(): string | undefined {
    const start = this.at + 1
    let value = ''
    let kept = start
    for (let at = start; at < this.text.length; at++) {
      const code = this.text.charCodeAt(at)
      if (code === QUOTE) {
        this.at = at + 1
        return value + this.text.slice(kept, at)
      }
      if (isControl(code)) return undefined
      if (code === BACKSLASH) {
        value += this.text.slice(kept, at)
        kept = ++at
        if (isControl(this.text.charCodeAt(at))) return undefined
      }
    }
    return undefined
  }
}

/** Joins the lines of a header, which form one list (RFC 9110 section 5.3). */
export function headerText(header: string | readonly string[]): string {
  return typeof header === 'string' ? header : header.join(', ')
}

const QVALUE = /^(?:0(?:\.[0-9]*)?|\.[0-9]+|1(?:\.0*)?)$/

/** Reads the weight `q` (RFC 9110 section 12.4.2): 1 if it is absent, `undefined` if malformed. */
export function readWeight(params: ReadonlyMap<string, string>): number | undefined {
  const text = params.get('q')
  if (text === undefined) return 1
  return QVALUE.test(text) ? Number(text) : undefined
}

const UNSAFE = /[^\t\x20-\x7e\x80-\xff]/

/** Returns true if a header can have this value: no controls, and nothing above U+00FF. */
export function isHeaderValue(text: string): boolean {
  return !UNSAFE.test(text)
}

/** Joins lists of names. Keeps the first of names that differ only in case. */
export function joinLists(lists: readonly string[]): string {
  const byName = new Map<string, string>()
  for (const member of lists.join(',').split(',')) {
    const name = member.trim()
    const key = name.toLowerCase()
    if (name !== '' && !byName.has(key)) byName.set(key, name)
  }
  return [...byName.values()].join(', ')
}
