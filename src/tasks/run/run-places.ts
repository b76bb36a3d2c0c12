/**
 * Places for the runs of this process: those of queued work and those of direct answers have
 * `concurrency` in common. Whoever finds none waits in line, first come, first served.
 */
export class RunPlaces {
  private taken = 0
  // A set keeps the order, and lets one in the middle go without a search.
  private readonly line = new Set<() => void>()

  constructor(private readonly count: number) {}

  /** How many wait in line. */
  get waiting(): number {
    return this.line.size
  }

  /** Takes a place if there is one now. */
  take(): boolean {
    if (this.taken >= this.count || this.line.size > 0) return false
    this.taken++
    return true
  }

  /** Waits in line for a place. Resolves to `false`, without one, when the signal aborts first. */
  wait(signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      const settle = (got: boolean): void => {
        this.line.delete(enter)
        signal.removeEventListener('abort', giveUp)
        resolve(got)
      }
      const enter = (): void => {
        this.taken++
        settle(true)
      }
      const giveUp = (): void => { settle(false) }
      if (signal.aborted) return giveUp()
      if (this.take()) return settle(true)
      signal.addEventListener('abort', giveUp, { once: true })
      this.line.add(enter)
    })
  }

  /**
   * Does work in a place, once there is one. Reads the signal only if it has to wait; rejects with
   * its reason if that aborts first.
   */
  async hold(source: { readonly signal: AbortSignal }, work: () => Promise<void>): Promise<void> {
    if (!this.take() && !await this.wait(source.signal)) throw source.signal.reason
    try {
      await work()
    } finally {
      this.leave()
    }
  }

  /** Gives a place back, to the first in line. */
  leave(): void {
    this.taken--
    const [first] = this.line
    first?.()
  }
}
