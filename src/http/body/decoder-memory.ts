import { heapShare } from '../../runtime/heap-share.js'
import { SharedLimit, type Share } from '../../runtime/shared-limit.js'
import { countedAs } from '../counted-as.js'
import type { HttpRequest } from '../exchange.js'
import { memoryRefused } from './memory-refused.js'

/** Memory that the decoders of all request bodies may take. It is outside the heap. */
const DECODERS = new SharedLimit(heapShare(1, 256))
/** Memory of a decoder beside its window: its tables, and a chunk of output. */
const BASE_BYTES = 262_144

/**
 * Memory of the decoder of one request body. Decoders of the same body that are open one after the
 * other may share it.
 */
export class DecoderMemory {
  readonly #memory: Share

  constructor(request: HttpRequest<unknown>) {
    this.#memory = DECODERS.open(countedAs(request))
  }

  /**
   * Acquires the memory for a window of this size. Keeps what it has if that is enough.
   *
   * @throws {HttpError} 429 `too_many_requests`: other requests of this caller use its part. 503
   * `overloaded`: all requests together use all of it
   */
  hold(windowBytes: number): void {
    const more = BASE_BYTES + windowBytes - this.#memory.amount
    if (more <= 0) return
    const code = this.#memory.refusal(more)
    if (code !== undefined) throw memoryRefused(code, 'compressed bodies')
    this.#memory.add(more)
  }

  release(): void {
    this.#memory.release()
  }
}
