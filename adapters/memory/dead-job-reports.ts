import type { DeadReason, Job, ProcessOptions } from '../../src/queues/queue.js'

/** Calls `onDead` for jobs that will not run again, and tracks the calls that have not settled. */
export class DeadJobReports {
  readonly #pending = new Set<Promise<void>>()
  #onDead: ProcessOptions['onDead'] | undefined

  /** Sets the listener that receives the reports. */
  listen(onDead: ProcessOptions['onDead']): void {
    this.#onDead = onDead
  }

  /** Reports one job. Calls `settled` when `onDead` has settled, even if it failed. */
  report(job: Job, reason: DeadReason, settled: () => void): void {
    const pending = this.#call(job, reason).then(() => {
      this.#pending.delete(pending)
      settled()
    })
    this.#pending.add(pending)
  }

  /** Resolves when every call made so far has settled, at most after `ms` milliseconds. */
  async settled(ms: number): Promise<void> {
    await atMost(ms, Promise.all(this.#pending))
  }

  async #call(job: Job, reason: DeadReason): Promise<void> {
    try {
      await this.#onDead?.(job, reason)
    } catch {
      // An error of the listener has no receiver: the queue has made its report.
    }
  }
}

/**
 * Waits for `done`, at most `ms` milliseconds. The timer keeps the process alive, so that draining
 * is not cut short.
 */
export async function atMost(ms: number, done: Promise<unknown>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined
  await Promise.race([done, new Promise((resolve) => { timer = setTimeout(resolve, ms) })])
  clearTimeout(timer)
}
