import { clientAddress } from './client-address.js'
import type { HttpRequest } from './exchange.js'
import { principalOf } from './principal.js'

/** Code of the error for a request that gets no more memory. */
export type MemoryRefusal = 'too_many_requests' | 'overloaded'

const addressOf = clientAddress()

/**
 * A limit of memory that the requests of all callers share. One caller may use a quarter of it. A
 * caller is a principal, or the network of an anonymous client.
 */
export class CallerShares {
  /** Bytes of each caller that uses any. */
  readonly used = new Map<string, number>()
  /** Bytes of all callers. */
  total = 0

  constructor(readonly totalBytes: number) {}

  /** Returns the memory of a request, which is empty at first. */
  open(request: HttpRequest<unknown>): RequestMemory {
    const subject = principalOf(request)?.subject
    const isAnonymous = subject === undefined
    return new RequestMemory(this, isAnonymous ? `network ${addressOf(request)}` : `subject ${subject}`)
  }
}

/** The part of the memory that one request uses. */
export class RequestMemory {
  #bytes = 0

  constructor(private readonly shares: CallerShares, readonly caller: string) {}

  /** Number of bytes that this request uses. */
  get bytes(): number {
    return this.#bytes
  }

  /**
   * Returns why this request may not use `more` bytes than now: other requests of its caller use the
   * caller's quarter, or all together use everything. A request that is alone may use any number.
   */
  refusal(more = 0): MemoryRefusal | undefined {
    const { used, total, totalBytes } = this.shares
    const own = used.get(this.caller) ?? 0
    if (own > this.#bytes && own + more > totalBytes / 4) return 'too_many_requests'
    if (total > this.#bytes && total + more > totalBytes) return 'overloaded'
    return undefined
  }

  add(bytes: number): void {
    const { shares, caller } = this
    const own = (shares.used.get(caller) ?? 0) + bytes
    if (own === 0) shares.used.delete(caller)
    else shares.used.set(caller, own)
    shares.total += bytes
    this.#bytes += bytes
  }

  release(): void {
    this.add(-this.#bytes)
  }
}
