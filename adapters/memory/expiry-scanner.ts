import timers from 'node:timers'

// Taken at once: a timer made under a test's fake timers would be the last one when they go.
const { setTimeout, clearTimeout } = timers

/** Milliseconds from one slice to the next, in quiet and while there is much to drop. */
const PACE = 1000
const FAST = 20
/** Milliseconds that one slice may take, and how many steps pass between two looks at the clock. */
const SLICE = 2
const STRIDE = 128

/**
 * Walks through everything held, a slice at a time, on one timer that keeps no process alive. A
 * million entries take some hundred slices of 2 ms. It only gives memory back: what has expired is
 * gone for readers at once.
 */
export class ExpiryScanner {
  readonly #walk: () => Iterator<boolean>
  readonly #pace: number
  #steps: Iterator<boolean> | undefined
  #timer: ReturnType<typeof setTimeout> | undefined

  /**
   * `walk` visits all that is held; each step says whether it dropped something. No steps: nothing
   * is held.
   */
  constructor(walk: () => Iterator<boolean>, pace = PACE) {
    this.#walk = walk
    this.#pace = pace
  }

  /** Sees to it that the timer runs. It ends on its own once nothing is held. */
  start(): void {
    if (this.#timer === undefined) this.#schedule(this.#pace)
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#steps = undefined
  }

  /**
   * Up to `count` steps now: for a store that is full and may hold what has expired. Small enough
   * for every refused write to pay it.
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
