import type { MaybePromise } from '../../runtime/maybe-promise.js'
import { isStoreUnavailable } from '../../stores/store.js'

const FIRST_MS = 100
const LONGEST_MS = 2000
/** About five minutes: as long as a fail-over, or a restart that has a large log to read. */
const TRIES = 150

/**
 * Retries work on a store that is unavailable, for about five minutes, because the outcome of a run
 * is worth more than one lost call. `end` ends that early: a process that stops has no five
 * minutes.
 */
export class Patience {
  private readonly pauses = new Set<() => void>()
  private over = false

  /**
   * Runs `work` again after 0.1 s, 0.2 s, … 2 s, 2 s, …. It must be right if an earlier write of it
   * landed.
   */
  async retry<T>(work: () => MaybePromise<T>): Promise<T> {
    for (let tried = 1; ; tried++) {
      try {
        return await work()
      } catch (error) {
        await this.pauseAfter(error, tried)
      }
    }
  }

  /**
   * Resolves when it is time for the next try; throws the error when there is none. A full store is
   * waited for only where it is `shared`: its operator makes room. In memory only this process
   * could, and it would wait for itself.
   */
  async pauseAfter(error: unknown, tried: number, shared = false): Promise<void> {
    if (this.over || tried === TRIES || !isStoreUnavailable(error) || (error.reason === 'full' && !shared)) throw error
    await new Promise<void>((resolve) => {
      const done = (): void => {
        clearTimeout(timer)
        this.pauses.delete(done)
        resolve()
      }
      const timer = setTimeout(done, Math.min(FIRST_MS * 2 ** (tried - 1), LONGEST_MS)).unref()
      this.pauses.add(done)
    })
  }

  /** Ends all pauses: each caller tries once more, and every later failure is final. */
  end(): void {
    this.over = true
    for (const done of this.pauses) done()
  }
}
