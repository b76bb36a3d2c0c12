import { setTimeout, clearTimeout } from '../../src/runtime/timers.js'

/** Milliseconds between two slices: normally, and while many entries expire. */
const PACE = 1000
const FAST = 20
/**
 * Maximum duration of a slice in milliseconds, and number of steps between two reads of the clock.
 */
const SLICE = 2
const STRIDE = 128

/**
 * Visits all entries in slices and removes expired ones, on one timer that keeps no process alive.
 * A million entries take some hundred slices of 2 ms. It only releases memory: readers never see
 * expired entries.
 */
export class ExpiryScanner {
  readonly #walk: () => Iterator<boolean>
  readonly #pace: number
  #steps: Iterator<boolean> | undefined
  #timer: ReturnType<typeof setTimeout> | undefined

  /**
   * `walk` visits all entries. Each step yields `true` if it removed one. A walk without steps
   * means that there are no entries.
   */
  constructor(walk: () => Iterator<boolean>, pace = PACE) {
    this.#walk = walk
    this.#pace = pace
  }

  /** Starts the timer. It stops by itself when there are no entries. */
  start(): void {
    if (this.#timer === undefined) this.#schedule(this.#pace)
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#steps = undefined
  }

  /**
   * Takes up to `count` steps now. For a full store that may have expired entries. Cheap enough for
   * every rejected write.
   */
  advance(count: number): void {
    let restarted = false
    this.#steps ??= this.#walk()
    for (let taken = 0; taken < count; taken++) {
      if (!this.#steps.next().done) continue
      this.#steps = this.#walk()
      if (restarted) return
      restarted = true
    }
  }

  #schedule(delay: number): void {
    this.#timer = setTimeout(() => this.#slice(), delay)
    this.#timer.unref()
  }

  #slice(): void {
    const end = performance.now() + SLICE
    const fresh = this.#steps === undefined
    this.#steps ??= this.#walk()
    let seen = 0
    let dropped = 0
    let done = false
    do {
      for (let i = 0; i < STRIDE && !done; i++) {
        const step = this.#steps.next()
        if (step.done) done = true
        else {
          seen++
          if (step.value) dropped++
        }
      }
    } while (!done && performance.now() < end)
    if (done) this.#steps = undefined
    if (done && fresh && seen === 0) this.#timer = undefined
    else this.#schedule(!done && dropped * 4 > seen ? Math.min(FAST, this.#pace) : this.#pace)
  }
}
