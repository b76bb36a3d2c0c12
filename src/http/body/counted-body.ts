import { heapShare } from '../../runtime/heap-share.js'
import { SharedLimit, type Share } from '../../runtime/shared-limit.js'
import { countedAs } from '../counted-as.js'
import type { BodySource, HttpRequest } from '../exchange.js'
import { CountedBytes } from './counted-bytes.js'

/** Heap that the JSON of all requests of this process may take while they use it, in bytes. */
export const PARSED = new SharedLimit(heapShare(8 / 3, Infinity))
/** Maximum bytes of heap for each byte of JSON: `{},` takes 64 bytes. */
export const HEAP_PER_BYTE = 24
/** Smaller bodies are not counted. In bytes. */
export const SMALL_BYTES = 65_536

/**
 * Runs work on a request. If its body may be large, the work gets a request whose body counts for its
 * caller until the work has ended or has released it. If the body counts already for outer work, its
 * memory counts until the outer work has ended.
 */
export function countingBody<C, R>(
  request: HttpRequest<C>, work: (request: HttpRequest<C>, counted?: CountedBody) => Promise<R>,
): Promise<R> {
  const { body, headers } = request
  // A body that the host has parsed takes its memory already. One of HTTP/2 may have no length.
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
   *
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
