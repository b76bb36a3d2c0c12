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
