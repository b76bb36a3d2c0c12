import { heapShare, SharedLimit, type Share, type Refusal } from '../../runtime/shared-limit.js'
import { Blocks } from '../../runtime/text.js'
import { countedAs } from '../requester.js'
import type { BodySource, HttpRequest } from '../exchange.js'
import { type HttpError, httpError } from '../errors.js'

/** Heap that the JSON of all requests of this process may take while they use it, in bytes. */
export const PARSED = new SharedLimit(heapShare(8 / 3, Infinity))
/** Maximum bytes of heap for each byte of JSON: `{},` takes 64 bytes. */
export const HEAP_PER_BYTE = 24
export const SMALL_BYTES = 65_536

/** Wraps work on a request. If the body may be large, its memory counts until the work has ended. */
export function countingBody<C, R>(
  work: (request: HttpRequest<C>, counted?: CountedBody) => Promise<R>,
): (request: HttpRequest<C>) => Promise<R> {
  return (request) => {
    const { body, headers } = request
    // A body that the framework has parsed takes its memory already. One of HTTP/2 may have no length.
    const isSmall = body.parsed !== undefined || Number(headers['content-length']) <= SMALL_BYTES
    if (isSmall) return work(request)
    return body instanceof CountedBody ? work(request, body) : countLargeBody(request, work)
  }
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
   * Returns all bytes, again if they were read before. Rejects with 429 or 503 if memory is short.
   */
  async bytes(limit: number): Promise<Uint8Array | undefined> {
    if (!this.#isRead && !await this.#read(limit)) return undefined
    return this.#received.size > limit ? undefined : Buffer.concat([...this.#received.pieces()])
  }

  stream(isWhole?: boolean): AsyncIterable<Uint8Array> {
    return this.#isRead ? this.#received.open() : this.#request.body.stream(isWhole)
  }

  /**
   * Waits until there is heap to parse so many bytes of JSON. Waiting requests take turns by
   * caller.
   */
  async waitToParse(bytes: number, request: HttpRequest<unknown>): Promise<void> {
    if (bytes <= SMALL_BYTES) return
    if (!await this.#heap.acquire(bytes * HEAP_PER_BYTE, request)) throw request.signal.reason
  }

  releaseJson(): void {
    this.#heap.release()
  }

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

const arriving = new Set<CountedBytes>()

/**
 * The bytes of a request body in memory, as sent. If all bodies together become too large, rejects
 * the one whose client has been silent for longest: 503 `overloaded`. So clients that stop in the
 * middle of a body block nobody. If the bodies of one caller become too large, rejects one of these
 * bodies: 429.
 */
export class CountedBytes {
  readonly #memory: Share
  readonly #bytes = new Blocks()
  #drop: (error: HttpError) => void = () => undefined
  #dropped: HttpError | undefined

  constructor(request: HttpRequest<unknown>) {
    this.#memory = RECEIVED.open(countedAs(request))
  }

  get size(): number { return this.#bytes.size }

  /** Reads until the source ends, or has more than `maxBytes`. Returns true if it has ended. */
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

  pieces(start?: number): Iterable<Uint8Array> {
    return this.#bytes.pieces(start)
  }

  async* open(start?: number): AsyncGenerator<Uint8Array, void, undefined> {
    yield* this.pieces(start)
  }

  release(): void {
    this.#memory.release()
    this.#bytes.clear()
  }

  /** Reads a piece. Not by `Promise.race`, which would keep a reaction for each piece. */
  #next(source: AsyncIterator<Uint8Array>): Promise<IteratorResult<Uint8Array>> {
    return new Promise((resolve, reject) => {
      const drop = (error: HttpError): void => {
        this.#dropped = error
        reject(error)
      }
      this.#drop = drop
      source.next().then(resolve, reject)
    })
  }

  #add(piece: Uint8Array): void {
    this.#bytes.keep(piece)
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

/** Memory of a decoder. Decoders of one body that are open one after the other may share it. */
export class DecoderMemory {
  readonly #memory: Share

  constructor(request: HttpRequest<unknown>) {
    this.#memory = DECODERS.open(countedAs(request))
  }

  /** Acquires the memory for a window of this size. Throws 429 or 503 if there is not enough. */
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

/** @param bodies - what takes the memory, such as `large bodies` */
export function memoryRefused(code: Refusal, bodies: string): HttpError {
  const whose = code === 'overloaded' ? 'The clients of this server send' : 'This client sends'
  return httpError(code, {
    message: `${whose} too many ${bodies} at the same time. Send this request again later.`,
    headers: { 'retry-after': '1' },
  })
}
