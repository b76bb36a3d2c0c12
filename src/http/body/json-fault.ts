export interface JsonFault {
  /** Index of the first unexpected character, in UTF-16 units from 0. */
  readonly offset: number
  /** From 1; a line ends with LF, CR or CRLF. */
  readonly line: number
  /** From 1, in UTF-16 units. */
  readonly column: number
  /** The expected token: `a value`, `':'` and so on. Never quotes the text. */
  readonly expected: string
}

const NUMBER_END = new Set([0x20, 0x09, 0x0a, 0x0d, 0x2c, 0x5d, 0x7d])
const LITERALS = ['true', 'false', 'null']
const HEX = /^[0-9a-fA-F]$/

/**
 * Finds the first fault of a text that is not JSON (RFC 8259). Error messages of engines are not
 * used: they differ between versions, may lack the position and may quote the text. Takes linear
 * time, does not recurse and never throws.
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

/** A scanner. Each step returns what it expected where it stopped, or `undefined` on success. */
class Scan {
  readonly text: string
  at = 0
  /** Closing brackets that are still missing, innermost last. */
  readonly #open: ('}' | ']')[] = []

  constructor(text: string) {
    this.text = text
  }

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
      if (char === close) {
        this.at++
        this.#open.pop()
      } else if (char === ',') {
        this.at++
        return close === '}' ? this.#key('a property name in double quotes') : undefined
      } else return `',' or '${close}'`
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
    if (char === '-' || isDigit(char)) return this.#number()
    const literal = LITERALS.find((word) => word[0] === char)
    if (literal === undefined) return 'a value'
    for (const letter of literal) {
      if (this.text[this.at] !== letter) return 'a value'
      this.at++
    }
    return undefined
  }

  #string(): string | undefined {
    this.at++
    while (this.at < this.text.length) {
      const code = this.text.charCodeAt(this.at)
      if (code < 0x20) {
        return 'an escaped character, since control characters cannot stand in a string'
      }
      this.at++
      if (code === 0x22) return undefined
      if (code === 0x5c) {
        const fault = this.#escape()
        if (fault !== undefined) return fault
      }
    }
    return 'the closing double quote'
  }

  #escape(): string | undefined {
    const char = this.text[this.at] ?? ''
    if (char === '' || !'"\\/bfnrtu'.includes(char)) return 'an escape sequence'
    this.at++
    if (char !== 'u') return undefined
    for (let digits = 0; digits < 4; digits++) {
      if (!HEX.test(this.text[this.at] ?? '')) return 'four hexadecimal digits'
      this.at++
    }
    return undefined
  }

  #number(): string | undefined {
    if (this.text[this.at] === '-') this.at++
    if (this.text[this.at] === '0') this.at++
    else if (!this.#digits()) return 'a digit'
    if (this.text[this.at] === '.') {
      this.at++
      if (!this.#digits()) return 'a digit'
    }
    if (this.text[this.at] === 'e' || this.text[this.at] === 'E') {
      this.at++
      if (this.text[this.at] === '+' || this.text[this.at] === '-') this.at++
      if (!this.#digits()) return 'a digit'
    }
    const ended = this.at >= this.text.length || NUMBER_END.has(this.text.charCodeAt(this.at))
    return ended ? undefined : 'the end of the number'
  }

  #digits(): boolean {
    const start = this.at
    while (isDigit(this.text[this.at] ?? '')) this.at++
    return this.at > start
  }

  /** Skips white space. Returns the next character, `''` at the end. */
  #next(): string {
    for (; this.at < this.text.length; this.at++) {
      const char = this.text[this.at] as string
      if (char !== ' ' && char !== '\n' && char !== '\r' && char !== '\t') return char
    }
    return ''
  }
}

function isDigit(char: string): boolean {
  return char >= '0' && char <= '9'
}
