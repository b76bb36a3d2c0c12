/** Interval in milliseconds of the timer that keeps a Worker alive. */
const KEEP_ALIVE_MS = 1000

/** Promises that wait for an idle engine. */
export class IdleWaiters {
  #resolvers: (() => void)[] = []

  /** Returns a new promise for each caller, because Workers cannot share one between requests. */
  wait(): Promise<void> {
    return new Promise((resolve) => { this.#resolvers.push(resolve) })
  }

  /** Resolves all promises: the engine is idle. */
  resolve(): void {
    if (this.#resolvers.length > 0) for (const resolve of this.#resolvers.splice(0)) resolve()
  }
}

/**
 * Keeps the process alive until `work` has ended. A Worker cancels a request that waits only for
 * promises of other requests.
 */
export async function keepAlive(work: Promise<void>): Promise<void> {
  const alive = setInterval(() => undefined, KEEP_ALIVE_MS)
  await work
  clearInterval(alive)
}
