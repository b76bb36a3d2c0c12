import { setImmediate } from 'node:timers/promises'

/** How long work goes on before others get a turn, in milliseconds. */
const TURN_MS = 10

/**
 * Keeps a loop that never waits for anything from holding the event loop: `if (turns.due) await
 * turns.next()`.
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
