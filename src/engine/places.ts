/**
 * The places for runs of one process, by pool. Runs of queued tasks and runs that answer a request
 * directly share them.
 */
export class Places {
  private readonly free = new Map<string, number>()
  private listener: ((pool: string) => void) | undefined

  /** @param pools - the number of places of each pool that this process works for, from 1 */
  constructor(readonly pools: ReadonlyMap<string, number>) {
    for (const [pool, count] of pools) this.free.set(pool, count)
  }

  /** Calls `listener` after a place of a pool has become free. One listener: the engine. */
  onFree(listener: (pool: string) => void): void {
    this.listener = listener
  }

  /** Returns the number of free places of a pool. */
  freeIn(pool: string): number {
    return this.free.get(pool) ?? 0
  }

  /** Acquires a place if one is free. */
  tryAcquire(pool: string): boolean {
    const free = this.freeIn(pool)
    if (free <= 0) return false
    this.free.set(pool, free - 1)
    return true
  }

  /** Releases a place, and tells the listener. */
  release(pool: string): void {
    this.free.set(pool, this.freeIn(pool) + 1)
    this.listener?.(pool)
  }
}
