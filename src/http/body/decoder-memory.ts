import { heapShare } from '../../runtime/heap-share.js'
import { CallerShares, type MemoryRefusal, type RequestMemory } from '../caller-shares.js'
import { httpError } from '../errors.js'
import type { HttpRequest } from '../exchange.js'

/** Memory that the decoders of all request bodies may take. It is outside the heap. */
const SHARES = new CallerShares(heapShare(1, 256))
/** Memory of a decoder beside its window: its tables, and a chunk of output. */
const BASE_BYTES = 262_144

/**
 * Memory of the decoder of one request body. Decoders of the same body that are open one after the
 * other may share it.
 */
export class DecoderMemory {
  readonly #memory: RequestMemory

  constructor(request: HttpRequest<unknown>) {
    this.#memory = SHARES.open(request)
  }

  /**
   * Acquires the memory for a window of this size. Keeps what it has if that is enough.
   *
   * @throws {HttpError} 429 `too_many_requests`: other requests of this caller use its part. 503
   * `overloaded`: all requests together use all of it
   */
  hold(windowBytes: number): void {
    const more = BASE_BYTES + windowBytes - this.#memory.bytes
    if (more <= 0) return
    const code = this.#memory.refusal(more)
    if (code !== undefined) throw refused(code)
    this.#memory.add(more)
  }

  release(): void {
    this.#memory.release()
  }
}

function refused(code: MemoryRefusal): Error {
  const whose = code === 'overloaded' ? 'The server' : 'This client'
  return httpError(code, {
    message: `${whose} has too many compressed bodies under way. Try again, or send it uncompressed.`,
    headers: { 'retry-after': '1' },
  })
}
