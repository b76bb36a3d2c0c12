import { heapBytesOf } from './json-size.js'

/**
 * A JSON value that has one form and makes the other one when it is first asked for: an engine in
 * memory never makes the text of most inputs, and one in a database never parses them.
 */
export class Json {
  #value: unknown
  #hasValue: boolean
  #text: string | undefined

  private constructor(hasValue: boolean, value: unknown, text: string | undefined) {
    this.#hasValue = hasValue
    this.#value = value
    this.#text = text
  }

  /**
   * Returns the JSON of a value.
   *
   * @param value - a value that JSON can carry and that nobody changes afterwards
   */
  static of(value: unknown): Json {
    return new Json(true, value, undefined)
  }

  /**
   * Returns the JSON of a text.
   *
   * @param text - well-formed JSON; the empty string stands for `undefined`
   */
  static fromText(text: string): Json {
    return new Json(false, undefined, text)
  }

  /** The value. Each call returns the same object. */
  get value(): unknown {
    if (!this.#hasValue) {
      this.#value = this.#text === '' ? undefined : JSON.parse(this.#text ?? '')
      this.#hasValue = true
    }
    return this.#value
  }

  /** The text; empty if the value is `undefined`. */
  get text(): string {
    this.#text ??= this.#value === undefined ? '' : JSON.stringify(this.#value)
    return this.#text
  }

  /** Upper estimate of the memory of the form that it has, in bytes. */
  get heapBytes(): number {
    return this.#text === undefined ? heapBytesOf(this.#value) : 2 * this.#text.length
  }

  /** Keeps the text only, because a parsed value takes up to 25 times the memory of its text. */
  pack(): this {
    this.#text = this.text
    this.#value = undefined
    this.#hasValue = false
    return this
  }
}
