/** Maximum bytes of heap for each character of JSON. */
const HEAP_PER_CHARACTER = 24

/** A JSON value that has its parsed form or its text, and makes the other form when it is needed. */
export class Json {
  #value: unknown
  #hasValue: boolean
  #text: string | undefined
  #valueBytes: number | undefined

  private constructor(hasValue: boolean, value: unknown, text: string | undefined) {
    this.#hasValue = hasValue
    this.#value = value
    this.#text = text
  }

  /**
   * Creates a `Json` from a value.
   * @param value - a value that JSON can carry and that nobody changes afterwards
   * @param text - the text from which it was parsed, if that is known
   */
  static of(value: unknown, text?: string): Json {
    return new Json(true, value, text)
  }

  /** Creates a `Json` from well-formed JSON text. The empty string means `undefined`. */
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

  /** Upper estimate of the memory of its current forms, in bytes. */
  get heapBytes(): number {
    const text = this.#text === undefined ? 0 : 2 * this.#text.length
    return this.#hasValue ? text + this.parsedBytes : text
  }

  /** Upper estimate of the memory of the parsed value, in bytes. */
  get parsedBytes(): number {
    if (this.#text !== undefined) return HEAP_PER_CHARACTER * this.#text.length
    this.#valueBytes ??= heapBytesOf(this.#value)
    return this.#valueBytes
  }

  /** Keeps only the text, because a parsed value takes up to 25 times as much memory. */
  pack(): this {
    this.#text = this.text
    this.#value = undefined
    this.#hasValue = false
    this.#valueBytes = undefined
    return this
  }
}

/** Returns true if a JSON value has at most `limit` properties and items, at all depths together. */
export function hasAtMost(value: unknown, limit: number): boolean {
  const open = [value]
  // The loop reads what it adds.
  for (const next of open) {
    const children: unknown[] = isContainer(next) ? Object.values(next) : []
    if (open.length - 1 + children.length > limit) return false
    open.push(...children)
  }
  return true
}

/** Returns an upper estimate of the heap that a parsed JSON value takes, in bytes. */
export function heapBytesOf(value: unknown): number {
  if (!isContainer(value)) return leafBytes(value)
  const open: object[] = [value]
  let bytes = 0
  const add = (child: unknown): void => {
    if (isContainer(child)) open.push(child)
    else bytes += leafBytes(child)
  }
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    bytes += 64
    if (Array.isArray(next)) for (const item of next) add(item)
    else {
      for (const key in next) {
        bytes += 48 + key.length
        add((next as Record<string, unknown>)[key])
      }
    }
  }
  return bytes
}

function isContainer(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

function leafBytes(value: unknown): number {
  return typeof value === 'string' ? 24 + 2 * value.length : 16
}
