import { KeyCounts } from '../runtime/collections.js'

/** Maximum numbers of concurrent requests. */
export interface InFlightLimits {
  readonly maxInFlight: number
  /** Limit for each receiver: for one host name, regardless of port, and for one address. */
  readonly maxPerHost: number
  readonly maxPerOwner: number
}

/** Permission to make one request. */
export interface Slot {
  /**
   * Counts the request against the addresses of its host name. Returns `false` if one of them has
   * reached `maxPerHost`; the request must not be made then.
   */
  readonly admit: (addresses: readonly string[]) => boolean
  /** Releases the slot. May be called twice. */
  readonly release: () => void
}

/** Limits concurrent requests, so that slow receivers delay only the owner that uses them. */
export class InFlightLimiter {
  private readonly counts = new KeyCounts()
  private inFlight = 0

  constructor(private readonly limits: InFlightLimits) {}

  /**
   * Acquires a slot for a request to a host name or address. Returns `undefined` if a limit is
   * reached.
   */
  acquire(host: string, owner: string | undefined): Slot | undefined {
    const { maxInFlight, maxPerHost, maxPerOwner } = this.limits
    const ownerKey = `owner ${owner === undefined ? '' : `=${owner}`}`
    const hostKey = `host ${host}`
    if (
      this.inFlight >= maxInFlight ||
      this.isFull(ownerKey, maxPerOwner) ||
      this.isFull(hostKey, maxPerHost)
    ) {
      return undefined
    }
    this.inFlight++
    const held = [ownerKey, hostKey]
    held.forEach((key) => { this.counts.add(key) })
    let left = false
    return {
      admit: (addresses) => {
        const keys = [...new Set(addresses.map((address) => `address ${address}`))]
        if (keys.some((key) => this.isFull(key, maxPerHost))) return false
        keys.forEach((key) => { this.counts.add(key) })
        held.push(...keys)
        return true
      },
      release: () => {
        if (left) return
        left = true
        this.inFlight--
        held.forEach((key) => { this.counts.remove(key) })
      },
    }
  }

  private isFull(key: string, max: number): boolean {
    return this.counts.get(key) >= max
  }
}
