import { types } from 'node:util'
import { settles } from '../../runtime/timers.js'
import type { ResponseHeaders } from '../exchange.js'
import { Source, wantsHeadAtOnce, type Chunk } from './source.js'

/** Maximum time that the head of a streamed response waits for the first chunk, in milliseconds. */
const HEAD_WAIT_MS = 1000

/** The body of a streamed response, as bindings send it: `begin`, then `next` until the end. */
export class OutgoingBody {
  /** `true` if each chunk must be sent at once. */
  readonly isEvents: boolean
  private readonly source: Source
  /** `Content-Length` of the response; `NaN` if it has none. */
  private readonly promised: number
  private sent = 0
  private asked: Promise<IteratorResult<Chunk>> | undefined
  private first: { readonly chunk: Chunk | undefined } | undefined

  constructor(body: AsyncIterable<Chunk>, headers: ResponseHeaders) {
    this.source = new Source(body)
    this.isEvents = wantsHeadAtOnce(headers)
    this.promised = Number(headers['content-length'] ?? NaN)
  }

  /**
   * Waits for the first chunk. Resolves to `false` if the head has to be sent before it: at once
   * for events, or after a second. Rejects as `next` does.
   */
  async begin(): Promise<boolean> {
    if (this.isEvents) return false
    this.asked = this.source.next()
    if (!await settles(this.asked, HEAD_WAIT_MS)) return false
    this.first = { chunk: await this.read() }
    return true
  }

  /**
   * Returns the next chunk that is not empty; `undefined` at the end. Rejects if the source fails,
   * yields no bytes, or has another length than the response promises.
   * @param returned - the last chunk, if nobody has further use for it: its memory may be reused
   */
  async next(returned?: Chunk): Promise<Chunk | undefined> {
    for (;;) {
      const chunk = this.first ? this.first.chunk : await this.read(returned)
      this.first = undefined
      if (chunk === undefined || chunk.length > 0) return chunk
    }
  }

  /** Closes the source, unless it has ended. */
  close(): void {
    this.source.close()
  }

  private async read(returned?: Chunk): Promise<Chunk | undefined> {
    const asked = this.asked ?? this.source.next(returned)
    this.asked = undefined
    const step = await asked
    if (step.done === true) {
      if (this.sent < this.promised) {
        throw new RangeError(`The body is ${this.sent} bytes long, and its Content-Length is ${this.promised}`)
      }
      return undefined
    }
    this.sent += sizeOf(step.value)
    if (this.sent > this.promised) {
      throw new RangeError(`The body is longer than its Content-Length of ${this.promised}`)
    }
    return step.value
  }
}

/** Returns the size of a chunk in bytes. Throws if it has none, because servers would fail late. */
export function sizeOf(chunk: Chunk): number {
  if (typeof chunk === 'string') return Buffer.byteLength(chunk)
  if (types.isUint8Array(chunk)) return chunk.byteLength
  throw new TypeError(`A chunk of a body must be a string or a Uint8Array, not ${typeof chunk}`)
}
