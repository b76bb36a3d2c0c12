import { heapBytesOf } from './json-size.js'

/** Maximum bytes of heap for each character of JSON. */
const HEAP_PER_CHARACTER = 24

/**
 * A JSON value that has one form and makes the other one when it is first asked for: an engine in
 * memory never makes the text of most inputs, and one in a database never parses them.
 */
export class Json {
  #value: unknown
  #hasValue: boolean
  #text: string | undefined
  /** Upper estimate of the memory of the value, once it was asked for. */
  #valueBytes: number | undefined

  private constructor(hasValue: boolean, value: unknown, text: string | undefined) {
    this.#hasValue = hasValue
    this.#value = value
    this.#text = text
  }

  /**
   * Returns the JSON of a value.
   *
   * @param value - a value that JSON can carry and that nobody changes afterwards
   * @param text - the text that it was parsed from, if that is known
   */
  static of(value: unknown, text?: string): Json {
    return new Json(true, value, text)
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

  /** Upper estimate of the memory of the forms that it has, in bytes. */
  get heapBytes(): number {
    const text = this.#text === undefined ? 0 : 2 * this.#text.length
    return this.#hasValue ? text + this.parsedBytes : text
  }

  /** Upper estimate of the memory of the value, in bytes, whether it was made or not. */
  get parsedBytes(): number {
    if (!this.#hasValue) return HEAP_PER_CHARACTER * (this.#text?.length ?? 0)
    this.#valueBytes ??= heapBytesOf(this.#value)
    return this.#valueBytes
  }

  /** Keeps the text only, because a parsed value takes up to 25 times the memory of its text. */
  pack(): this {
    this.#text = this.text
    this.#value = undefined
    this.#hasValue = false
    this.#valueBytes = undefined
    return this
  }
}
