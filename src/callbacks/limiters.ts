import { KeyCounts } from '../runtime/key-counts.js'

/** Maximum numbers of requests under way. */
export interface InFlightLimits {
  readonly maxInFlight: number
  /** For each receiver: for one host name, whatever its port, and for one address. */
  readonly maxPerHost: number
  readonly maxPerOwner: number
}

/** One request's place. */
export interface Slot {
  /**
   * Counts the request against the addresses that its host name has. `false`: one of them has as
   * many requests under way as it may, and the request must not be made.
   */
  readonly admit: (addresses: readonly string[]) => boolean
  /** Gives the place back. Calling it twice is harmless. */
  readonly release: () => void
}

/**
 * Bounds the requests under way, so that slow receivers delay nobody but the owner whose receivers
 * they are.
 */
export class InFlightLimiter {
  private readonly counts = new KeyCounts()
  private inFlight = 0

  constructor(private readonly limits: InFlightLimits) {}

  /** Takes a place for a request to a host name or address; `undefined` when there is none. */
  acquire(host: string, owner: string | undefined): Slot | undefined {
    const { maxInFlight, maxPerHost, maxPerOwner } = this.limits
    const ownerKey = `owner ${owner === undefined ? '' : `=${owner}`}`
    const hostKey = `host ${host}`
    if (this.inFlight >= maxInFlight || this.isFull(ownerKey, maxPerOwner) || this.isFull(hostKey, maxPerHost)) return undefined
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

/**
 * Counts the callbacks that wait in the memory of this process, in all and for each owner, so that
 * one owner's callbacks never take the room of another's.
 */
export class WaitingLimiter {
  private readonly ownerOf = new Map<string, string | undefined>()
  private readonly perOwner = new KeyCounts<string | undefined>()

  constructor(private readonly max: number, private readonly maxPerOwner: number) {}

  /** Counts the callback of a task, once. `false` when there is no room for it. */
  add(taskId: string, owner: string | undefined): boolean {
    if (this.ownerOf.has(taskId)) return true
    if (this.ownerOf.size >= this.max || this.perOwner.get(owner) >= this.maxPerOwner) return false
    this.ownerOf.set(taskId, owner)
    this.perOwner.add(owner)
    return true
  }

  /** Stops counting the callback of a task. */
  delete(taskId: string): void {
    if (!this.ownerOf.has(taskId)) return
    const owner = this.ownerOf.get(taskId)
    this.ownerOf.delete(taskId)
    this.perOwner.remove(owner)
  }
}
