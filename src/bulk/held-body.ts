import { createHash } from 'node:crypto'
import { CallerShares, type MemoryRefusal, type RequestMemory } from '../http/caller-shares.js'
import { httpError, type HttpError } from '../http/errors.js'
import type { HttpRequest } from '../http/exchange.js'
import { heapShare } from '../runtime/heap-share.js'

/** The bodies that direct requests of this process hold, in bytes as sent. Outside the heap. */
const HELD = new CallerShares(heapShare(2, 512))
/**
 * The JSON that direct requests of this process have parsed at a time, in bytes. Parsed JSON takes
 * up to 25 times as much of the heap.
 */
const PARSED = new CallerShares(heapShare(64, 64))
/** Smaller parts of JSON are not counted. In bytes. */
const COUNTED_BYTES = 16_384
const BLOCK_BYTES = 65_536

/** Bodies that are still arriving, by the time of their last bytes. */
const arriving = new Set<HeldBody>()

/**
 * The body of a direct request in memory, as sent. If all bodies together become too large, the
 * one whose client has been silent for longest is rejected with `overloaded`, so that clients that
 * stop in the middle of a body keep nobody else out. If those of one caller become too large, one of
 * them is rejected in the same way with `too_many_requests`.
 */
export class HeldBody {
  /** Number of bytes. */
  size = 0
  readonly #memory: RequestMemory
  readonly #blocks: Uint8Array[] = []
  #drop: (error: HttpError) => void = () => undefined
  #dropped: HttpError | undefined

  constructor(request: HttpRequest<unknown>) {
    this.#memory = HELD.open(request)
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
      if (silent === this) throw refused(code)
      silent.#drop(refused(code))
    }
  }
}

/**
 * Runs work on parsed JSON of `bytes` bytes. Small JSON is never refused.
 *
 * @throws {HttpError} Other requests have parsed too much: 429 `too_many_requests` if they are of
 * the same caller, else 503 `overloaded`
 */
export async function withParsed<R>(
  request: HttpRequest<unknown>, bytes: number, work: () => Promise<R>,
): Promise<R> {
  if (bytes <= COUNTED_BYTES) return work()
  const memory = PARSED.open(request)
  const code = memory.refusal(bytes)
  if (code !== undefined) throw refused(code)
  memory.add(bytes)
  try {
    return await work()
  } finally {
    memory.release()
  }
}

let lastTurn: Promise<unknown> = Promise.resolve()

/**
 * Runs work after the work of earlier calls has ended. For work that needs much memory and waits
 * for no client and no database. Resolves to `undefined`, without the work, if the request's client
 * has disconnected by then.
 */
export function inTurn<R>(
  request: Pick<HttpRequest<unknown>, 'gone' | 'signal'>, work: () => Promise<R>,
): Promise<R | undefined> {
  const turn = lastTurn.then(() => (
    request.gone ?? request.signal.aborted ? undefined : work()
  ))
  lastTurn = turn.catch(() => undefined)
  return turn
}

function refused(code: MemoryRefusal): HttpError {
  const message = 'This client has too many bulk requests under way. Send this one again later.'
  const headers = { 'retry-after': '1' }
  return httpError(code, code === 'overloaded' ? { headers } : { message, headers })
}
