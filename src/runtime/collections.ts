/** Element of a list. It has the links itself, so that the list allocates nothing. */
export interface Linked<T> {
  previous: T | undefined
  next: T | undefined
}

/**
 * Doubly linked list. Adds at the end and removes anywhere, in constant time. For what comes and goes
 * with each request it replaces a `Set` or `Map`: those leave tables behind that keep one another, and
 * what was in them, until the next garbage collection of the whole heap.
 */
export class LinkedList<T extends Linked<T>> {
  /** Number of elements. */
  size = 0
  #first: T | undefined
  #last: T | undefined

  get first(): T | undefined {
    return this.#first
  }

  get last(): T | undefined {
    return this.#last
  }

  *[Symbol.iterator](): Generator<T, void> {
    for (let element = this.#first, next; element; element = next) {
      // The element may be removed meanwhile.
      next = element.next
      yield element
    }
  }

  push(element: T): void {
    this.size++
    element.previous = this.#last
    if (this.#last === undefined) this.#first = element
    else this.#last.next = element
    this.#last = element
  }

  /** Removes an element. It must be in this list. */
  remove(element: T): void {
    this.size--
    if (element.previous === undefined) this.#first = element.next
    else element.previous.next = element.next
    if (element.next === undefined) this.#last = element.previous
    else element.next.previous = element.previous
    element.previous = undefined
    element.next = undefined
  }

  /** Empties the list. Its elements keep their links, so they must not be used again. */
  clear(): void {
    this.size = 0
    this.#first = undefined
    this.#last = undefined
  }
}

/** Number of keys up to which those whose count is 0 stay. */
const KEPT = 64

/**
 * Counts by key, such as the requests of each owner. At most 64 keys whose count is 0 take memory: they
 * stay, because a `Map` that changes with each request is slow (see `LinkedList`).
 */
export class KeyCounts<K = string> {
  readonly #counts = new Map<K, number>()

  /** Number of keys in memory. */
  get size(): number {
    return this.#counts.size
  }

  get(key: K): number {
    return this.#counts.get(key) ?? 0
  }

  add(key: K): void {
    this.#counts.set(key, this.get(key) + 1)
  }

  /** Subtracts 1 from the count of a key. A count of 0 stays 0. */
  remove(key: K): void {
    const count = this.get(key)
    if (count === 0) return
    if (count > 1 || this.#counts.size <= KEPT) this.#counts.set(key, count - 1)
    else this.#counts.delete(key)
  }
}

const GENERATION = 128
const LONGEST = 255

/**
 * Caches the parse results of recent short strings, because clients repeat the same few header
 * values. Two generations of 128 strings: a text that is used again survives a flood of others. Holds
 * at most 256 strings of 255 characters. Longer strings are parsed each time.
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

  /** Number of strings in the cache. */
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
