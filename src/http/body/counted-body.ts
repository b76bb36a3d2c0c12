import { heapShare, SharedLimit, type Share, type Refusal } from '../../runtime/shared-limit.js'
import { Blocks } from '../../runtime/text.js'
import { countedAs } from '../requester.js'
import type { BodySource, HttpRequest } from '../exchange.js'
import { type HttpError, httpError } from '../errors.js'

/** Heap that the JSON of all requests of this process may take while they use it, in bytes. */
export const PARSED = new SharedLimit(heapShare(8 / 3, Infinity))
/** Maximum bytes of heap for each byte of JSON: `{},` takes 64 bytes. */
export const HEAP_PER_BYTE = 24
/** Smaller bodies are not counted. In bytes. */
export const SMALL_BYTES = 65_536

/**
 * Runs work on a request. If its body may be large, the work gets a request whose body counts for
 * its caller until the work has ended or has released it. If the body counts already for outer
 * work, its memory counts until the outer work has ended.
 */
export function countingBody<C, R>(
  request: HttpRequest<C>, work: (request: HttpRequest<C>, counted?: CountedBody) => Promise<R>,
): Promise<R> {
  const { body, headers } = request
  // A body that the framework has parsed takes its memory already. One of HTTP/2 may have no length.
  const isSmall = body.parsed !== undefined || Number(headers['content-length']) <= SMALL_BYTES
  if (isSmall) return work(request)
  return body instanceof CountedBody ? work(request, body) : countLargeBody(request, work)
}

async function countLargeBody<C, R>(
  request: HttpRequest<C>, work: (request: HttpRequest<C>, counted: CountedBody) => Promise<R>,
): Promise<R> {
  const body = new CountedBody(request)
  try {
    return await work(request.with({ body }), body)
  } finally {
    body.release()
  }
}

/** A request body whose memory counts for its caller: its bytes, and the JSON that they parse to. */
export class CountedBody implements BodySource {
  readonly #request: HttpRequest<unknown>
  readonly #received: CountedBytes
  readonly #heap: Share
  #isRead = false

  constructor(request: HttpRequest<unknown>) {
    this.#request = request
    this.#received = new CountedBytes(request)
    this.#heap = PARSED.open(countedAs(request))
  }

  get parsed(): BodySource['parsed'] { return this.#request.body.parsed }

  /**
   * Returns all bytes, again if they were read before.
   * @throws {HttpError} 429 `too_many_requests` or 503 `overloaded`: other bodies take the memory
   */
  async bytes(limit: number): Promise<Uint8Array | undefined> {
    if (!this.#isRead && !await this.#read(limit)) return undefined
    return this.#received.size > limit ? undefined : Buffer.concat([...this.#received.pieces()])
  }

  stream(isWhole?: boolean): AsyncIterable<Uint8Array> {
    return this.#isRead ? this.#received.open() : this.#request.body.stream(isWhole)
  }

  /** Waits until there is heap to parse so many bytes of JSON. They wait in callers' turns. */
  async waitToParse(bytes: number, request: HttpRequest<unknown>): Promise<void> {
    if (bytes <= SMALL_BYTES) return
    if (!await this.#heap.acquire(bytes * HEAP_PER_BYTE, request)) throw request.signal.reason
  }

  /** Releases the heap, because the JSON is no longer used or counts elsewhere. */
  releaseJson(): void {
    this.#heap.release()
  }

  /** Releases all memory. */
  release(): void {
    this.#heap.release()
    this.#received.release()
    this.#isRead = false
  }

  async #read(limit: number): Promise<boolean> {
    const { body, headers } = this.#request
    if (Number(headers['content-length']) > limit) return false
    const source = body.stream(true)[Symbol.asyncIterator]()
    try {
      this.#isRead = await this.#received.read(source, limit)
    } finally {
      // The source may be waiting for its client, so this may take long.
      source.return?.().catch(() => undefined)
    }
    return this.#isRead
  }
}

/** The bodies that the requests of this process hold, in bytes as sent. Outside the heap. */
const RECEIVED = new SharedLimit(heapShare(2, 512))

/** Bodies that are still arriving, by the time of their last bytes. */
const arriving = new Set<CountedBytes>()

/**
 * The bytes of a request body in memory, as sent. They count from their arrival on. If all bodies
 * together become too large, the one whose client has been silent for longest is rejected with
 * `overloaded`, so that clients that stop in the middle of a body keep nobody else out. If those of
 * one caller become too large, one of them is rejected in the same way with `too_many_requests`.
 */
export class CountedBytes {
  readonly #memory: Share
  readonly #bytes = new Blocks()
  #drop: (error: HttpError) => void = () => undefined
  #dropped: HttpError | undefined

  constructor(request: HttpRequest<unknown>) {
    this.#memory = RECEIVED.open(countedAs(request))
  }

  /** Number of bytes. */
  get size(): number { return this.#bytes.size }

  /**
   * Reads until the source ends, or has more than `maxBytes`. Returns true if it has ended.
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
  pieces(start?: number): Iterable<Uint8Array> {
    return this.#bytes.pieces(start)
  }

  /** Yields the bytes from an offset on. */
  async* open(start?: number): AsyncGenerator<Uint8Array, void, undefined> {
    yield* this.pieces(start)
  }

  /** Frees the memory. Call it once nobody reads the body any more. */
  release(): void {
    this.#memory.release()
    this.#bytes.clear()
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
    this.#bytes.add(piece)
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

/**
 * Returns the error for a request that gets no memory: 429 `too_many_requests` or 503 `overloaded`.
 * @param bodies - what takes the memory, such as `large bodies`
 */
export function memoryRefused(code: Refusal, bodies: string): HttpError {
  const whose = code === 'overloaded' ? 'The server' : 'This client'
  return httpError(code, {
    message: `${whose} has too many ${bodies} under way. Send this request again later.`,
    headers: { 'retry-after': '1' },
  })
}
