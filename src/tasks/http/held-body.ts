import type { BodySource, HttpRequest } from '../../http/exchange.js'
import { Budget } from '../../runtime/budget.js'
import { heapShare } from '../../runtime/heap-share.js'

/** Heap that the bodies of this process may take between parsing and acceptance, in bytes. */
const ACCEPTING = new Budget(heapShare(8, Infinity))
/** Smaller bodies are not counted. In bytes. */
const COUNTED_BYTES = 65_536
/** Maximum bytes of heap for each byte of JSON: `{},` takes 64 bytes. */
const HEAP_PER_BYTE = 24

/** Returns false if the header fields say that the body is small. */
export function mayBeLarge({ headers, body }: HttpRequest<unknown>): boolean {
  // A body that the host has parsed takes its memory already.
  if (body.parsed !== undefined) return false
  // A body of HTTP/2 may have no Content-Length.
  return !(Number(headers['content-length']) <= COUNTED_BYTES)
}

/**
 * A body whose bytes are returned once there is memory to parse them. A request that waits for
 * memory holds only the bytes.
 */
export class HeldBody implements BodySource {
  #held = 0

  constructor(private readonly request: HttpRequest<unknown>) {}

  get parsed(): BodySource['parsed'] { return this.request.body.parsed }

  async bytes(limit: number): Promise<Uint8Array | undefined> {
    const { body, signal } = this.request
    const bytes = await body.bytes(limit)
    if (bytes === undefined || bytes.byteLength <= COUNTED_BYTES) return bytes
    const held = bytes.byteLength * HEAP_PER_BYTE
    if (!ACCEPTING.tryAcquire(held) && !await ACCEPTING.acquire(held, signal)) throw signal.reason
    this.#held += held
    return bytes
  }

  stream(): AsyncIterable<Uint8Array> {
    return this.request.body.stream()
  }

  /** Releases the memory, because the parsed body is no longer used or counts elsewhere. */
  release(): void {
    if (this.#held === 0) return
    ACCEPTING.release(this.#held)
    this.#held = 0
  }
}
