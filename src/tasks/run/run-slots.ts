/**
 * Limits the concurrent runs of this process. Queued work and direct answers share the slots. A run
 * that finds no free slot waits in line, first in, first out.
 */
export class RunSlots {
  private taken = 0
  // A set keeps the order and removes an element from the middle without a search.
  private readonly line = new Set<() => void>()

  /** @param count - maximum number of concurrent runs */
  constructor(readonly count: number) {}

  /** Number of runs that wait in line. */
  get waiting(): number {
    return this.line.size
  }

  /** Acquires a slot if one is free. */
  tryAcquire(): boolean {
    if (this.taken >= this.count || this.line.size > 0) return false
    this.taken++
    return true
  }

  /** Waits for a slot. Resolves to `false`, without a slot, if the signal aborts first. */
  acquire(signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      const settle = (acquired: boolean): void => {
        this.line.delete(enter)
        signal.removeEventListener('abort', giveUp)
        resolve(acquired)
      }
      const enter = (): void => {
        this.taken++
        settle(true)
      }
      const giveUp = (): void => { settle(false) }
      if (signal.aborted) return giveUp()
      if (this.tryAcquire()) return settle(true)
      signal.addEventListener('abort', giveUp, { once: true })
      this.line.add(enter)
    })
  }

  /**
   * Runs `work` in a slot. Reads the signal only if it has to wait, because reading it creates it.
   * Rejects with the reason of the signal if that aborts first.
   */
  async run(source: { readonly signal: AbortSignal }, work: () => Promise<void>): Promise<void> {
    if (!this.tryAcquire() && !await this.acquire(source.signal)) throw source.signal.reason
    try {
      await work()
    } finally {
      this.release()
    }
  }

  /** Releases a slot to the first in line. */
  release(): void {
    this.taken--
    const [first] = this.line
    first?.()
  }
}
