/** One that waits for a part of a budget. */
interface Waiting {
  readonly amount: number
  readonly enter: () => void
}

/**
 * A limit that concurrent work shares, such as bytes of memory. An amount above the whole budget is
 * acquired when nothing else is, so that work which is alone always runs. Whoever finds too little
 * waits in line, first in, first out.
 */
export class Budget {
  private used = 0
  private readonly line = new Set<Waiting>()

  constructor(readonly total: number) {}

  /** Acquires an amount if there is enough and nobody waits. */
  tryAcquire(amount: number): boolean {
    if (this.line.size > 0 || !this.fits(amount)) return false
    this.used += amount
    return true
  }

  /** Waits for an amount. Resolves to `false`, without it, if the signal aborts first. */
  acquire(amount: number, signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      if (signal.aborted) return resolve(false)
      if (this.tryAcquire(amount)) return resolve(true)
      const settle = (acquired: boolean): void => {
        this.line.delete(waiting)
        signal.removeEventListener('abort', giveUp)
        resolve(acquired)
      }
      const giveUp = (): void => {
        settle(false)
        this.admit()
      }
      const waiting = { amount, enter: () => { settle(true) } }
      signal.addEventListener('abort', giveUp, { once: true })
      this.line.add(waiting)
    })
  }

  /** Releases an amount to the first in line. */
  release(amount: number): void {
    this.used -= amount
    this.admit()
  }

  private admit(): void {
    for (const { amount, enter } of this.line) {
      if (!this.fits(amount)) return
      this.used += amount
      enter()
    }
  }

  private fits(amount: number): boolean {
    return this.used === 0 || this.used + amount <= this.total
  }
}
