import { httpError, type HttpError } from '../errors.js'
import type { BodySource, RequestHeaders } from '../exchange.js'
import { ContentDigest } from '../fields/digests.js'

/** Body of a request as bindings make it. Your framework may have read the body before. */
export abstract class BindingBody implements BodySource {
  /** @param left - the body as your framework parsed it; `undefined` if it did not */
  constructor(protected readonly left: unknown) {}

  /** True if the body was read, and not by this object. */
  protected abstract readonly wasRead: boolean
  abstract bytes(limit: number): Promise<Uint8Array | undefined>
  abstract stream(): AsyncIterable<Uint8Array>

  /**
   * The body as your framework parsed it, if it has read the body: Express 4 sets `req.body` to
   * `{}` for requests whose body it has not read. If it is a string or bytes, `bytes` and `stream`
   * return it, too.
   */
  get parsed(): { readonly value: unknown } | undefined {
    return this.wasRead && this.left !== undefined ? { value: this.left } : undefined
  }

  protected leftBytes(): Uint8Array {
    const { left } = this
    if (typeof left === 'string') return new TextEncoder().encode(left)
    if (left instanceof ArrayBuffer) return new Uint8Array(left)
    if (ArrayBuffer.isView(left)) return new Uint8Array(left.buffer, left.byteOffset, left.byteLength)
    throw this.lostError()
  }

  protected lostError(): Error {
    return new Error(READ_BEFORE)
  }

  protected digestOf(headers: RequestHeaders): ContentDigest | undefined {
    return this.wasRead ? ContentDigest.ofParsed(headers) : ContentDigest.of(headers)
  }
}

const READ_BEFORE = 'The body of this request was read before longhaul got the request. Mount longhaul'
  + ' before the body parser, or pass what the parser made of the body: handle(req, res, { body }) with'
  + ' toNode, handle(request, { body }) with toFetch'

/** The error of a handler that reads the body of a request twice. */
export const READ_TWICE = 'The body of this request was asked for twice; it can be read only once'

/**
 * Returns the error of a body whose client has disconnected. It has no cause, because errors with a
 * cause are reported.
 */
export function cutShort(): HttpError {
  return httpError('incomplete_body')
}

export type Chunk = Uint8Array | string

/**
 * Time that the head of a streamed response waits for the first chunk, in milliseconds. A source
 * that fails within it gets an error instead of a truncated 200.
 */
export const HEAD_WAIT_MS = 1000

/** Reads a streamed body once, and closes its source exactly once, even if it is not read. */
export class Source {
  private readonly body: AsyncIterable<Chunk>
  private readonly iterator: AsyncIterator<Chunk>
  private first: Promise<IteratorResult<Chunk>> | undefined
  private over = false

  constructor(body: AsyncIterable<Chunk>) {
    this.body = body
    this.iterator = body[Symbol.asyncIterator]()
  }

  /** Returns the next chunk. Rejects as the source does; the source then counts as closed. */
  async next(): Promise<IteratorResult<Chunk>> {
    const asked = this.first ?? this.iterator.next()
    this.first = undefined
    try {
      const step = await asked
      if (step.done === true) this.over = true
      return step
    } catch (error) {
      this.over = true
      throw error
    }
  }

  /**
   * Requests the first chunk. Resolves to `false` if it does not arrive within `ms`. `next` returns
   * that chunk, or rejects with its failure.
   */
  firstWithin(ms: number): Promise<boolean> {
    const first = this.iterator.next()
    this.first = first
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms, false)
      timer.unref()
      const settled = (): void => {
        clearTimeout(timer)
        resolve(true)
      }
      first.then(settled, settled)
    })
  }

  /** Returns the first chunk, which `next` returns again. */
  async peek(): Promise<IteratorResult<Chunk>> {
    const step = await this.next()
    this.first = Promise.resolve(step)
    return step
  }

  /** Closes the source before its end. Ignores errors that the source throws. */
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

/**
 * Returns true if the head must be sent before the first chunk, because the client waits for it.
 */
export function wantsHeadAtOnce(headers: Readonly<Record<string, string | string[]>>): boolean {
  const type = headers['content-type']
  return typeof type === 'string' && type.startsWith('text/event-stream')
}

function ignore(): void {}
