import { setImmediate } from 'node:timers/promises'

/** Time that work runs before it yields to the event loop, in milliseconds. */
const TURN_MS = 10

/**
 * Lets a loop that never waits yield to the event loop: `if (turns.due) await turns.next()`.
 */
export class Turns {
  private began = performance.now()

  get due(): boolean {
    return performance.now() - this.began >= TURN_MS
  }

  async next(): Promise<void> {
    await setImmediate()
    this.began = performance.now()
  }
}
