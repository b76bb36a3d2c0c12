import { KeyCounts } from '../../runtime/collections.js'

/** The abort reason of all slots. One error serves all, because creating one for each is slow. */
const RELEASED = new Error('The request no longer waits')

/** The slot of a request that waits. */
export interface WaiterSlot {
  /** Aborts when the slot is released, the client disconnects, or the server closes. */
  readonly signal: AbortSignal
  readonly release: () => void
}

/**
 * Limits how many requests wait at once, in all and for each owner. Ends them when the server
 * closes.
 */
export class Waiters {
  private readonly slots = new Set<AbortController>()
  private readonly perOwner = new KeyCounts()
  private closed = false

  /** @param maxPerOwner - slots of one owner. Default: a tenth of `max`, at least 10 */
  constructor(
    readonly max: number, private readonly maxPerOwner = Math.max(10, Math.ceil(max / 10)),
  ) {}

  get size(): number {
    return this.slots.size
  }

  /** Returns whether this owner has all its slots. `counted` is that of `countedAs`. */
  isFullFor(counted: string): boolean {
    return this.perOwner.get(counted) >= this.maxPerOwner
  }

  /** Acquires a slot. Returns `undefined` if none is free, or the client has disconnected. */
  tryAcquire(client: AbortSignal, counted: string): WaiterSlot | undefined {
    if (this.slots.size >= this.max || this.isFullFor(counted) || this.closed || client.aborted) {
      return undefined
    }
    const slot = new AbortController()
    const release = () => {
      if (this.slots.delete(slot)) this.perOwner.remove(counted)
      client.removeEventListener('abort', release)
      slot.abort(RELEASED)
    }
    this.slots.add(slot)
    this.perOwner.add(counted)
    // A client that disconnects releases its slot too, because a stream that is never read runs no
    // cleanup of its own.
    client.addEventListener('abort', release, { once: true })
    return { signal: slot.signal, release }
  }

  close(): void {
    this.closed = true
    for (const slot of this.slots) slot.abort(RELEASED)
  }
}
