const GENERATION = 128
const LONGEST = 255

/**
 * Remembers what recent short texts were parsed to. Clients repeat the same few header texts, so a
 * look-up replaces a parse. Two generations of 128 texts: what is asked for again survives a flood
 * of others, and no more than 256 texts of 255 characters are ever held. Longer ones are made anew.
 *
 * Values are shared between callers, so `make` must give what nobody changes.
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

  /** How many texts are held now. */
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
