import { createHash } from 'node:crypto'
import { httpError, type HttpError } from '../http/errors.js'
import { heapShare } from '../runtime/heap-share.js'

/**
 * Maximum size of all bodies that direct requests of this process hold, in bytes as sent. They are
 * outside the heap.
 */
const MAX_HELD_BYTES = heapShare(2, 512)
/**
 * Maximum size of the JSON that direct requests of this process have parsed at a time, in bytes.
 * Parsed JSON takes up to 25 times as much of the heap.
 */
const MAX_PARSED_BYTES = heapShare(64, 64)
const BLOCK_BYTES = 65_536

let heldBytes = 0
let parsedBytes = 0
/** Bodies that are still arriving, by the time of their last bytes. */
const arriving = new Set<HeldBody>()

/**
 * The body of a direct request in memory, as sent. If all bodies together become too large, the
 * one whose client has been silent for longest is rejected with `overloaded`, so that clients that
 * stop in the middle of a body keep nobody else out.
 */
export class HeldBody {
  /** Number of bytes. */
  size = 0
  readonly #blocks: Uint8Array[] = []
  #drop: () => void = () => undefined
  #dropped = false

  /**
   * Reads until the source ends, or has more than `maxBytes`. Returns true if it has ended.
   *
   * @throws {HttpError} 503 `overloaded`
   */
  async read(source: AsyncIterator<Uint8Array>, maxBytes: number): Promise<boolean> {
    arriving.add(this)
    try {
      while (this.size <= maxBytes) {
        const step = await this.#next(source)
        // A piece may have arrived at the same time.
        if (this.#dropped) throw overloaded()
        if (step.done === true) return true
        this.#add(step.value)
      }
      return false
    } finally {
      arriving.delete(this)
    }
  }

  /** Yields the bytes from an offset on. */
  async* open(start = 0): AsyncGenerator<Uint8Array, void, undefined> {
    for (let at = start; at < this.size;) {
      const block = this.#blocks[Math.floor(at / BLOCK_BYTES)] as Uint8Array
      const from = at % BLOCK_BYTES
      const piece = block.subarray(from, Math.min(BLOCK_BYTES, from + this.size - at))
      at += piece.byteLength
      yield piece
    }
  }

  /** SHA-256 of the bytes, in hex. */
  get sha256(): string {
    const hash = createHash('sha256')
    this.#blocks.forEach((block, at) => {
      hash.update(block.subarray(0, Math.min(BLOCK_BYTES, this.size - at * BLOCK_BYTES)))
    })
    return hash.digest('hex')
  }

  /** Frees the memory. Call it once nobody reads the body any more. */
  release(): void {
    heldBytes -= this.size
    this.size = 0
    this.#blocks.length = 0
  }

  /** Reads a piece. Not by `Promise.race`, which would keep a reaction for each piece. */
  #next(source: AsyncIterator<Uint8Array>): Promise<IteratorResult<Uint8Array>> {
    return new Promise((resolve, reject) => {
      this.#drop = () => {
        this.#dropped = true
        reject(overloaded())
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
      heldBytes += part.byteLength
      at += part.byteLength
    }
    arriving.delete(this)
    arriving.add(this)
    for (const silent of arriving) {
      if (heldBytes <= MAX_HELD_BYTES) return
      arriving.delete(silent)
      silent.release()
      if (silent === this) throw overloaded()
      silent.#drop()
    }
  }
}

/**
 * Runs work on parsed JSON of `bytes` bytes. The limit counts from the second request on, so that
 * a request that is alone always runs.
 *
 * @throws {HttpError} 503 `overloaded`: other requests have parsed too much
 */
export async function withParsed<R>(bytes: number, work: () => Promise<R>): Promise<R> {
  if (parsedBytes > 0 && parsedBytes + bytes > MAX_PARSED_BYTES) throw overloaded()
  parsedBytes += bytes
  try {
    return await work()
  } finally {
    parsedBytes -= bytes
  }
}

let lastTurn: Promise<unknown> = Promise.resolve()

/**
 * Runs work after the work of earlier calls has ended. For work that needs much memory and waits
 * for no client and no database.
 */
export function inTurn<R>(work: () => Promise<R>): Promise<R> {
  const turn = lastTurn.then(work)
  lastTurn = turn.catch(() => undefined)
  return turn
}

function overloaded(): HttpError {
  return httpError('overloaded', { headers: { 'retry-after': '1' } })
}
