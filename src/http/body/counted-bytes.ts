import { heapShare } from '../../runtime/heap-share.js'
import { SharedLimit, type Share } from '../../runtime/shared-limit.js'
import { countedAs } from '../counted-as.js'
import type { HttpError } from '../errors.js'
import type { HttpRequest } from '../exchange.js'
import { memoryRefused } from './memory-refused.js'

/** The bodies that the requests of this process hold, in bytes as sent. Outside the heap. */
const RECEIVED = new SharedLimit(heapShare(2, 512))
const BLOCK_BYTES = 65_536

/** Bodies that are still arriving, by the time of their last bytes. */
const arriving = new Set<CountedBytes>()

/**
 * The bytes of a request body in memory, as sent. They count from their arrival on. If all bodies
 * together become too large, the one whose client has been silent for longest is rejected with
 * `overloaded`, so that clients that stop in the middle of a body keep nobody else out. If those of
 * one caller become too large, one of them is rejected in the same way with `too_many_requests`.
 */
export class CountedBytes {
  /** Number of bytes. */
  size = 0
  readonly #memory: Share
  readonly #blocks: Uint8Array[] = []
  #drop: (error: HttpError) => void = () => undefined
  #dropped: HttpError | undefined

  constructor(request: HttpRequest<unknown>) {
    this.#memory = RECEIVED.open(countedAs(request))
  }

  /**
   * Reads until the source ends, or has more than `maxBytes`. Returns true if it has ended.
   *
   * @throws {HttpError} 429 `too_many_requests`, 503 `overloaded`
   */
  async read(source: AsyncIterator<Uint8Array>, maxBytes: number): Promise<boolean> {
    arriving.add(this)
    try {
      while (this.size <= maxBytes) {
        const step = await this.#next(source)
        // A piece may have arrived at the same time.
        if (this.#dropped) throw this.#dropped
        if (step.done === true) return true
        this.#add(step.value)
      }
      return false
    } finally {
      arriving.delete(this)
    }
  }

  /** Yields the bytes from an offset on. */
  * pieces(start = 0): Generator<Uint8Array, void, undefined> {
    for (let at = start; at < this.size;) {
      const block = this.#blocks[Math.floor(at / BLOCK_BYTES)] as Uint8Array
      const from = at % BLOCK_BYTES
      const piece = block.subarray(from, Math.min(BLOCK_BYTES, from + this.size - at))
      at += piece.byteLength
      yield piece
    }
  }

  /** Yields the bytes from an offset on. */
  async* open(start?: number): AsyncGenerator<Uint8Array, void, undefined> {
    yield* this.pieces(start)
  }

  /** Frees the memory. Call it once nobody reads the body any more. */
  release(): void {
    this.#memory.release()
    this.size = 0
    this.#blocks.length = 0
  }

  /** Reads a piece. Not by `Promise.race`, which would keep a reaction for each piece. */
  #next(source: AsyncIterator<Uint8Array>): Promise<IteratorResult<Uint8Array>> {
    return new Promise((resolve, reject) => {
      this.#drop = (error) => {
        this.#dropped = error
        reject(error)
      }
      source.next().then(resolve, reject)
    })
  }

  #add(piece: Uint8Array): void {
    for (let at = 0; at < piece.byteLength;) {
      const filled = this.size % BLOCK_BYTES
      if (filled === 0) this.#blocks.push(Buffer.allocUnsafeSlow(BLOCK_BYTES))
      const part = piece.subarray(at, at + BLOCK_BYTES - filled)
      this.#blocks.at(-1)?.set(part, filled)
      this.size += part.byteLength
      at += part.byteLength
    }
    this.#memory.add(piece.byteLength)
    arriving.delete(this)
    arriving.add(this)
    for (const silent of arriving) {
      const code = this.#memory.refusal()
      if (code === undefined) return
      const isOwn = silent.#memory.caller === this.#memory.caller
      if (code === 'too_many_requests' && !isOwn) continue
      arriving.delete(silent)
      silent.release()
      const error = memoryRefused(code, 'large bodies')
      if (silent === this) throw error
      silent.#drop(error)
    }
  }
}
