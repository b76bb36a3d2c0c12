/** The pieces of a streamed body. */
export type Chunk = Uint8Array | string

/**
 * How long the head of a streamed answer waits for the first chunk, in milliseconds. A source that
 * fails within it is answered with an error of its own instead of a truncated 200.
 */
export const HEAD_WAIT_MS = 1000

/**
 * Reads a streamed body once and makes sure that its source is closed exactly once, also unread.
 */
export class Source {
  private readonly body: AsyncIterable<Chunk>
  private readonly iterator: AsyncIterator<Chunk>
  private first: Promise<IteratorResult<Chunk>> | undefined
  private over = false

  constructor(body: AsyncIterable<Chunk>) {
    this.body = body
    this.iterator = body[Symbol.asyncIterator]()
  }

  /** The next chunk. Rejects as the source does; the source counts as closed then. */
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
   * Asks for the first chunk; `false` when it is not there after `ms`. `next` gives that chunk, or
   * its failure.
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

  /**
   * Resolves once the first chunk that was asked for is there, and rejects when the source failed
   * at it.
   */
  async settled(): Promise<void> {
    await this.first
  }

  /**
   * Tells the source that nobody reads on. Does nothing after its end; what the source throws is
   * dropped.
   */
  close(): void {
    if (this.over) return
    this.over = true
    try {
      this.iterator.return?.()?.then(undefined, ignore)
      // An iterator over a Node stream that nobody started does not close the stream.
      const { destroy } = this.body as { destroy?: unknown }
      if (typeof destroy === 'function') destroy.call(this.body)
    } catch {
      // The source failed at stopping; it is no longer read either way.
    }
  }
}

/**
 * Closes a streamed body that nobody will read: an answer to HEAD, or to a client that has gone.
 */
export function closeUnread(body: unknown): void {
  if (!isStreamed(body)) return
  try {
    new Source(body).close()
  } catch {
    // It could not even be opened.
  }
}

/** Whether a response body comes in pieces. */
export function isStreamed(body: unknown): body is AsyncIterable<Chunk> {
  return typeof body === 'object' && body !== null && !ArrayBuffer.isView(body)
}

/**
 * Whether the head has to go out before the first chunk is there, because the client waits for it.
 */
export function wantsHeadAtOnce(headers: Readonly<Record<string, string | string[]>>): boolean {
  const type = headers['content-type']
  return typeof type === 'string' && type.startsWith('text/event-stream')
}

function ignore(): void {}
