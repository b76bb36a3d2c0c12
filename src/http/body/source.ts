import { types } from 'node:util'
import { httpError, type HttpError } from '../errors.js'
import type { BodySource, RequestHeaders } from '../exchange.js'
import { ContentDigest } from '../headers/digests.js'

export abstract class BindingBody implements BodySource {
  constructor(protected readonly left: unknown) {}

  protected abstract readonly wasRead: boolean
  abstract bytes(limit: number): Promise<Uint8Array | undefined>
  abstract stream(): AsyncIterable<Uint8Array>

  /**
   * Only if the body was read: Express 4 sets `req.body` to `{}` for bodies that it has not read.
   */
  get parsed(): { readonly value: unknown } | undefined {
    if (!this.wasRead || this.left === undefined) return undefined
    const value = bytesIn(this.left) ?? this.left
    return isUnread(value) ? undefined : { value }
  }

  protected leftBytes(): Uint8Array {
    const { left } = this
    if (typeof left === 'string') return new TextEncoder().encode(left)
    const bytes = bytesIn(left)
    if (bytes === undefined) throw this.lostError()
    return bytes
  }

  protected lostError(): Error {
    return new Error(READ_BEFORE)
  }

  protected digestOf(headers: RequestHeaders): ContentDigest | undefined {
    if (!this.wasRead) return ContentDigest.of(headers)
    return ContentDigest.ofParsed(headers, bytesIn(this.left))
  }
}

function bytesIn(left: unknown): Uint8Array | undefined {
  if (left instanceof Uint8Array) return left
  if (types.isAnyArrayBuffer(left)) return new Uint8Array(left)
  if (!ArrayBuffer.isView(left)) return undefined
  return new Uint8Array(left.buffer, left.byteOffset, left.byteLength)
}

/** Returns true for a stream, a Blob, a form and the like, which JSON would write as `{}`. */
function isUnread(left: unknown): boolean {
  if (typeof left !== 'object' || left === null || Array.isArray(left)) return false
  if (ArrayBuffer.isView(left)) return false
  return Symbol.asyncIterator in left || Symbol.iterator in left || left instanceof Blob
}

const READ_BEFORE = 'The body of this request was read before longhaul got the request. Mount longhaul'
  + ' before the body parser, or pass what the parser made of the body: handle(req, res, { body }) with'
  + ' toNode, handle(request, { body }) with toFetch. In Fastify, use the plugin fastifyLonghaul in'
  + ' place of toFastify'

export const READ_TWICE = 'The body of this request was asked for twice; it can be read only once'

/**
 * Returns the error of a body whose client has disconnected. It is not reported: it has no cause.
 */
export function cutShort(): HttpError {
  return httpError('incomplete_body')
}

export type Chunk = Uint8Array | string

/** Reads a streamed body once, and closes its source exactly once, even if it is not read. */
export class Source {
  private readonly iterator: AsyncIterator<Chunk>
  private over = false

  constructor(private readonly body: AsyncIterable<Chunk>) {
    this.iterator = body[Symbol.asyncIterator]()
  }

  /** @param returned - the last chunk, if nobody has further use for it: its memory may be reused */
  async next(returned?: Chunk): Promise<IteratorResult<Chunk>> {
    try {
      const step = await this.iterator.next(returned)
      if (step.done === true) this.over = true
      return step
    } catch (error) {
      this.over = true
      throw error
    }
  }

  close(): void {
    if (this.over) return
    this.over = true
    try {
      this.iterator.return?.()?.then(undefined, ignore)
      // An iterator over a Node stream that nobody started does not close the stream.
      const { destroy } = this.body as { destroy?: unknown }
      if (typeof destroy === 'function') destroy.call(this.body)
    } catch {
      // The source failed while closing. It is not read any more.
    }
  }
}

/** Closes a streamed body that is not read: the response to HEAD, or to a client that left. */
export function closeUnread(body: unknown): void {
  if (!isStreamed(body)) return
  try {
    new Source(body).close()
  } catch {
    // The source could not be opened.
  }
}

export function isStreamed(body: unknown): body is AsyncIterable<Chunk> {
  return typeof body === 'object' && body !== null && !ArrayBuffer.isView(body)
}

/** Returns true if the client waits for the head, so it is sent before the first chunk. */
export function wantsHeadAtOnce(headers: Readonly<Record<string, string | string[]>>): boolean {
  const type = headers['content-type']
  return typeof type === 'string' && type.startsWith('text/event-stream')
}

function ignore(): void {}
