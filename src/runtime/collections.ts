/**
 * Element of a list. Elements have the links to their neighbours, so that the list allocates
 * nothing.
 */
export interface Linked<T> {
  previous: T | undefined
  next: T | undefined
}

/**
 * Doubly linked list. It replaces a `Set` or `Map` for elements that live as long as a request,
 * because their old tables keep each other and their elements alive until the next collection of
 * the whole heap.
 */
export class LinkedList<T extends Linked<T>> {
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
      // The body of the loop may remove the element.
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

  /** Removes an element, which must be in this list. */
  remove(element: T): void {
    this.size--
    if (element.previous === undefined) this.#first = element.next
    else element.previous.next = element.next
    if (element.next === undefined) this.#last = element.previous
    else element.next.previous = element.previous
    element.previous = undefined
    element.next = undefined
  }

  /** Empties the list. Its elements keep their links, so do not use them again. */
  clear(): void {
    this.size = 0
    this.#first = undefined
    this.#last = undefined
  }
}

const KEPT = 64

/** Counts by key. Keeps 64 keys whose count is 0, because a `Map` that changes with each request is slow. */
export class KeyCounts<K = string> {
  readonly #counts = new Map<K, number>()

  get size(): number {
    return this.#counts.size
  }

  get(key: K): number {
    return this.#counts.get(key) ?? 0
  }

  add(key: K): void {
    this.#counts.set(key, this.get(key) + 1)
  }

  /** Subtracts 1. A count of 0 stays 0. */
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
 * Caches what `make` returns for recent strings of at most 255 characters. Keeps two generations of
 * 128 strings, so that a string that is used again survives a flood of others. All uses share the
 * values.
 */
export class Memo<V extends object> {
  #recent = new Map<string, V>()
  #older = new Map<string, V>()

  constructor(private readonly make: (text: string) => V) {}

  get(text: string): V {
    return this.#recent.get(text) ?? this.#miss(text)
  }

  get size(): number {
    return this.#recent.size + this.#older.size
  }

  #miss(text: string): V {
    if (text.length > LONGEST) return this.make(text)
    const value = this.#older.get(text) ?? this.make(text)
    if (this.#recent.size >= GENERATION) {
      this.#older = this.#recent
      this.#recent = new Map()
    }
    this.#recent.set(text, value)
    return value
  }
}
