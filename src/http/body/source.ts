/** The pieces of a streamed body. */
export type Chunk = Uint8Array | string

/**
 * Time that the head of a streamed response waits for the first chunk, in milliseconds. A source
 * that fails within it is answered with an error instead of a truncated 200.
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

  /** Resolves when the requested first chunk arrives. Rejects if the source failed. */
  async settled(): Promise<void> {
    await this.first
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

/** Returns true if a response body is a stream. */
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
