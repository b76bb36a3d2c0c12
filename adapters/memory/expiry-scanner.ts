import { setTimeout, clearTimeout } from '../../src/runtime/timers.js'

/** Milliseconds between two slices: normally, and while many entries expire. */
const PACE = 1000
const FAST = 20
/** Maximum duration of a slice in milliseconds, and number of steps between two reads of the clock. */
const SLICE = 2
const STRIDE = 128

/** Visits the entries of a map, which may change meanwhile. Yields true for each that was removed. */
export function* walk<T>(
  entries: ReadonlyMap<string, T>, isDropped: (entry: T) => boolean,
): Generator<boolean> {
  let left = entries.size
  for (const entry of entries.values()) {
    if (left-- === 0) return
    yield isDropped(entry)
  }
}

/**
 * Removes expired entries in slices, to release their memory: a million entries take some hundred slices of
 * 2 ms. Its timer keeps no process alive.
 */
export class ExpiryScanner {
  #steps: Iterator<boolean> | undefined
  #timer: ReturnType<typeof setTimeout> | undefined

  /** @param walk - visits all entries; each step yields `true` if it removed one */
  constructor(private readonly walk: () => Iterator<boolean>, private readonly pace = PACE) {}

  /** Starts the timer. It stops by itself when there are no entries. */
  start(): void {
    if (this.#timer === undefined) this.#schedule(this.pace)
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#steps = undefined
  }

  /** Takes up to `count` steps now, for a full store that may have expired entries. */
  advance(count: number): void {
    let rounds = 0
    for (let taken = 0; taken < count && rounds < 2; taken++) {
      this.#steps ??= this.walk()
      if (!this.#steps.next().done) continue
      this.#steps = undefined
      rounds++
    }
  }

  #schedule(delay: number): void {
    this.#timer = setTimeout(() => this.#slice(), delay)
    this.#timer.unref()
  }

  #slice(): void {
    const end = performance.now() + SLICE
    const isWhole = this.#steps === undefined
    const steps = this.#steps ??= this.walk()
    let seen = 0
    let dropped = 0
    let step = steps.next()
    while (!step.done) {
      seen++
      if (step.value) dropped++
      if (seen % STRIDE === 0 && performance.now() >= end) break
      step = steps.next()
    }
    if (step.done) this.#steps = undefined
    if (step.done && isWhole && seen === 0) this.#timer = undefined
    else this.#schedule(!step.done && dropped * 4 > seen ? Math.min(FAST, this.pace) : this.pace)
  }
}
