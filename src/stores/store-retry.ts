import { isStoreUnavailable } from './store.js'

const FIRST_DELAY_MS = 100
const MAX_DELAY_MS = 2000
/** About five minutes in all: enough for a fail-over, or for a restart that reads a large log. */
const MAX_TRIES = 150

/** Repeats work. The work has to be right if an earlier try of it was made. */
export type Retry = <T>(work: () => Promise<T>) => Promise<T>

/**
 * Returns a function that retries work of a run while the store is unavailable, until `signal`
 * aborts.
 */
export function retryUntil(signal: AbortSignal): Retry {
  const retry = new StoreRetry(false)
  const stop = (): void => { retry.stop() }
  if (signal.aborted) stop()
  else signal.addEventListener('abort', stop, { once: true })
  return async (work) => {
    for (let tries = 1; ; tries++) {
      try {
        return await work()
      } catch (error) {
        await retry.backOff(error, tries)
      }
    }
  }
}

/**
 * Retries work on a store that is unavailable, for about five minutes, because the outcome of a run
 * is worth more than one lost call. `stop` ends the retries early, because a process that shuts
 * down does not have five minutes.
 */
export class StoreRetry {
  private readonly delays = new Set<() => void>()
  private stopped = false

  /**
   * @param shared - whether other processes share the store. A full store is retried only then,
   * because its operator can add memory; this process would wait for itself.
   */
  constructor(private readonly shared: boolean) {}

  /**
   * Resolves when it is time for the next try: after 0.1 s, 0.2 s, … 2 s, 2 s, …. Throws the error if
   * there is none. The work has to be right if an earlier try of it was made.
   */
  async backOff(error: unknown, tries: number): Promise<void> {
    if (this.stopped || tries === MAX_TRIES || !isStoreUnavailable(error)
      || (error.reason === 'full' && !this.shared)) {
      throw error
    }
    await new Promise<void>((resolve) => {
      const done = (): void => {
        clearTimeout(timer)
        this.delays.delete(done)
        resolve()
      }
      const timer = setTimeout(done, Math.min(FIRST_DELAY_MS * 2 ** (tries - 1), MAX_DELAY_MS)).unref()
      this.delays.add(done)
    })
  }

  /** Ends all delays. Each caller tries once more, and every later failure is final. */
  stop(): void {
    this.stopped = true
    for (const done of this.delays) done()
  }
}
