/** Maximum numbers of requests under way. */
export interface GateLimits {
  readonly maxInFlight: number
  /** For each receiver: for one host name, whatever its port, and for one address. */
  readonly maxPerHost: number
  readonly maxPerOwner: number
}

/** One request's place. */
export interface Pass {
  /**
   * Counts the request against the addresses that its host name has. `false`: one of them has as
   * many requests under way as it may, and the request must not be made.
   */
  readonly admit: (addresses: readonly string[]) => boolean
  /** Gives the place back. Calling it twice is harmless. */
  readonly leave: () => void
}

/**
 * Bounds the requests under way, so that slow receivers delay nobody but the owner whose receivers
 * they are.
 */
export class Gate {
  private readonly counts = new Map<string, number>()
  private inFlight = 0

  constructor(private readonly limits: GateLimits) {}

  /** Takes a place for a request to a host name or address; `undefined` when there is none. */
  enter(host: string, owner: string | undefined): Pass | undefined {
    const { maxInFlight, maxPerHost, maxPerOwner } = this.limits
    const ownerKey = `owner ${owner === undefined ? '' : `=${owner}`}`
    const hostKey = `host ${host}`
    if (this.inFlight >= maxInFlight || this.isFull(ownerKey, maxPerOwner) || this.isFull(hostKey, maxPerHost)) return undefined
    this.inFlight++
    const held = [ownerKey, hostKey]
    held.forEach((key) => { this.add(key, 1) })
    let left = false
    return {
      admit: (addresses) => {
        const keys = [...new Set(addresses.map((address) => `address ${address}`))]
        if (keys.some((key) => this.isFull(key, maxPerHost))) return false
        keys.forEach((key) => { this.add(key, 1) })
        held.push(...keys)
        return true
      },
      leave: () => {
        if (left) return
        left = true
        this.inFlight--
        held.forEach((key) => { this.add(key, -1) })
      },
    }
  }

  private isFull(key: string, max: number): boolean {
    return (this.counts.get(key) ?? 0) >= max
  }

  private add(key: string, by: number): void {
    const count = (this.counts.get(key) ?? 0) + by
    if (count === 0) this.counts.delete(key)
    else this.counts.set(key, count)
  }
}
