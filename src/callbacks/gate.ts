/**
 * Bounds the requests under way, in all and to one host, so that receivers that are slow hold up nobody but
 * themselves.
 */
export class Gate {
  private readonly perHost = new Map<string, number>()
  private inFlight = 0

  constructor(private readonly max: number, private readonly maxPerHost: number) {}

  /** Takes a place; `undefined` when there is none. What comes back gives it back, once. */
  enter(host: string): (() => void) | undefined {
    const there = this.perHost.get(host) ?? 0
    if (this.inFlight >= this.max || there >= this.maxPerHost) return undefined
    this.inFlight++
    this.perHost.set(host, there + 1)
    let left = false
    return () => {
      if (left) return
      left = true
      this.inFlight--
      const now = (this.perHost.get(host) ?? 1) - 1
      if (now === 0) this.perHost.delete(host)
      else this.perHost.set(host, now)
    }
  }
}
