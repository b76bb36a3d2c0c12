export interface JsonFault {
  /** Index of the first unexpected character, in UTF-16 units from 0. */
  readonly offset: number
  readonly line: number
  readonly column: number
  /** The expected token: `a value`, `':'` and so on. Never quotes the text. */
  readonly expected: string
}

/**
 * Finds the first fault of a text that is not JSON (RFC 8259). Messages of JavaScript engines are
 * not used, because they differ and may quote the text. Never throws.
 * @returns `undefined` if the text is JSON
 */
export function jsonFault(text: string): JsonFault | undefined {
  const scan = new Scan(text)
  const expected = scan.run()
  return expected === undefined ? undefined : { offset: scan.at, ...place(text, scan.at), expected }
}

function place(text: string, offset: number): { line: number; column: number } {
  let line = 1
  let start = 0
  for (let at = 0; at < offset; at++) {
    const code = text.charCodeAt(at)
    if (code === 0x0a || (code === 0x0d && text.charCodeAt(at + 1) !== 0x0a)) {
      line++
      start = at + 1
    }
  }
  return { line, column: offset - start + 1 }
}

const SPACE = /[ \t\n\r]*/y
const CHARACTERS = /[^"\\\0-\x1f]*/y
const ESCAPE = /\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})/y
const HEX = /[0-9a-fA-F]*/y
const NUMBER = /-?(?:(?:0|[1-9]\d*)(?:\.(?:\d+(?:[eE][+-]?\d*)?)?|[eE][+-]?\d*)?)?/y
const NUMBER_END = /^[ \t\n\r,\]}]?$/
const LITERALS = ['true', 'false', 'null']

/** A scanner. Each step returns what it expected where it stopped, or `undefined` on success. */
class Scan {
  at = 0
  readonly #open: ('}' | ']')[] = []

  constructor(readonly text: string) {}

  run(): string | undefined {
    for (;;) {
      const fault = this.#value()
      if (fault !== undefined) return fault
      if (this.#open.length === 0) return this.#next() === '' ? undefined : 'the end of the text'
    }
  }

  #value(): string | undefined {
    const char = this.#next()
    if (char === '{' || char === '[') {
      this.at++
      const close = char === '{' ? '}' : ']'
      this.#open.push(close)
      if (this.#next() !== close) {
        return char === '{' ? this.#key("a property name in double quotes or '}'") : undefined
      }
    } else {
      const fault = this.#scalar(char)
      if (fault !== undefined) return fault
    }
    return this.#afterValue()
  }

  #afterValue(): string | undefined {
    for (let close = this.#open.at(-1); close !== undefined; close = this.#open.at(-1)) {
      const char = this.#next()
      if (char !== close && char !== ',') return `',' or '${close}'`
      this.at++
      if (char === ',' && close === '}') return this.#key('a property name in double quotes')
      if (char === ',') return undefined
      this.#open.pop()
    }
    return undefined
  }

  #key(expected: string): string | undefined {
    if (this.#next() !== '"') return expected
    const fault = this.#string()
    if (fault !== undefined) return fault
    if (this.#next() !== ':') return "':'"
    this.at++
    return undefined
  }

  #scalar(char: string): string | undefined {
    if (char === '"') return this.#string()
    const literal = LITERALS.find((word) => word[0] === char)
    if (literal !== undefined) {
      for (const letter of literal) {
        if (this.#char !== letter) return 'a value'
        this.at++
      }
      return undefined
    }
    const number = this.#skip(NUMBER)
    if (number === '') return 'a value'
    if (!/\d$/.test(number)) return 'a digit'
    return NUMBER_END.test(this.#char) ? undefined : 'the end of the number'
  }

  #string(): string | undefined {
    this.at++
    do this.#skip(CHARACTERS)
    while (this.#skip(ESCAPE) !== '')
    const char = this.#char
    if (char === '') return 'the closing double quote'
    if (char !== '"' && char !== '\\') {
      return 'an escaped character, since control characters cannot stand in a string'
    }
    this.at++
    if (char === '"') return undefined
    if (this.#char !== 'u') return 'an escape sequence'
    this.at++
    this.#skip(HEX)
    return 'four hexadecimal digits'
  }

  #next(): string {
    this.#skip(SPACE)
    return this.#char
  }

  get #char(): string { return this.text[this.at] ?? '' }

  #skip(pattern: RegExp): string {
    pattern.lastIndex = this.at
    const [found = ''] = pattern.exec(this.text) ?? []
    this.at += found.length
    return found
  }
}
