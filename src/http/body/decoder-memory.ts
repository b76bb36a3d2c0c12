import { heapShare } from '../../runtime/heap-share.js'
import { clientAddress } from '../client-address.js'
import { httpError } from '../errors.js'
import type { HttpRequest } from '../exchange.js'
import { principalOf } from '../principal.js'

/** Memory that the decoders of all request bodies may take, in bytes. It is outside the heap. */
const TOTAL_BYTES = heapShare(1, 256)
/** The part of it that one caller may use. */
const CALLER_BYTES = Math.floor(TOTAL_BYTES / 4)
/** Memory of a decoder beside its window: its tables, and a chunk of output. */
const BASE_BYTES = 262_144

const addressOf = clientAddress()
const used = new Map<string, number>()
let total = 0

/**
 * Memory of the decoder of one request body. A caller is a principal, or the network of an anonymous
 * client. A decoder that is alone is never refused.
 */
export class DecoderMemory {
  readonly #caller: string
  #bytes = 0

  constructor(request: HttpRequest<unknown>) {
    const subject = principalOf(request)?.subject
    this.#caller = subject === undefined ? `network ${addressOf(request)}` : `subject ${subject}`
  }

  /**
   * Acquires the memory for a window of this size. Keeps what it has if that is enough.
   *
   * @throws {HttpError} 429 `too_many_requests`: other requests of this caller use its part. 503
   * `overloaded`: all requests together use all of it
   */
  hold(windowBytes: number): void {
    const more = BASE_BYTES + windowBytes - this.#bytes
    if (more <= 0) return
    const own = used.get(this.#caller) ?? 0
    if (own > this.#bytes && own + more > CALLER_BYTES) throw refusal('too_many_requests')
    if (total > this.#bytes && total + more > TOTAL_BYTES) throw refusal('overloaded')
    this.#add(more)
  }

  release(): void {
    this.#add(-this.#bytes)
  }

  #add(bytes: number): void {
    const own = (used.get(this.#caller) ?? 0) + bytes
    if (own === 0) used.delete(this.#caller)
    else used.set(this.#caller, own)
    total += bytes
    this.#bytes += bytes
  }
}

function refusal(code: 'too_many_requests' | 'overloaded'): Error {
  const whose = code === 'overloaded' ? 'The server' : 'This client'
  return httpError(code, {
    message: `${whose} has too many compressed bodies under way. Try again, or send it uncompressed.`,
    headers: { 'retry-after': '1' },
  })
}
