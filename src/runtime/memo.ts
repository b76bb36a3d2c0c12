const GENERATION = 128
const LONGEST = 255

/**
 * Caches the parse results of recent short texts, because clients repeat the same few header
 * values. Two generations of 128 texts: a text that is used again survives a flood of others. Holds
 * at most 256 texts of 255 characters. Longer texts are parsed each time.
 *
 * Results are shared between callers, so `make` must return values that nobody changes.
 */
export class Memo<V extends object> {
  readonly #make: (text: string) => V
  #recent = new Map<string, V>()
  #older = new Map<string, V>()

  constructor(make: (text: string) => V) {
    this.#make = make
  }

  get(text: string): V {
    return this.#recent.get(text) ?? this.#miss(text)
  }

  /** Number of texts in the cache. */
  get size(): number {
    return this.#recent.size + this.#older.size
  }

  #miss(text: string): V {
    if (text.length > LONGEST) return this.#make(text)
    const value = this.#older.get(text) ?? this.#make(text)
    if (this.#recent.size >= GENERATION) {
      this.#older = this.#recent
      this.#recent = new Map()
    }
    this.#recent.set(text, value)
    return value
  }
}
