/**
 * Passes bytes on while a reader reads them, at the speed of the slower one. If the reader fails,
 * the bytes fail at their end with its error, so that nobody uses them.
 */
export async function* passing(
  source: AsyncIterable<Uint8Array>, read: (copy: AsyncIterable<Uint8Array>) => Promise<unknown>,
): AsyncGenerator<Uint8Array, void, undefined> {
  const copy = new Copy()
  const reading = read(copy).finally(() => { copy.close() })
  // Awaited at the end.
  reading.catch(() => undefined)
  let failure: unknown = new Error('The source was not read to its end')
  try {
    for await (const piece of source) {
      await copy.give({ value: piece })
      yield piece
      // The source may use the piece again.
      await copy.wanted()
    }
    await copy.give({ done: true, value: undefined })
    await reading
  } catch (error) {
    failure = error
    throw error
  } finally {
    copy.fail(failure)
  }
}

type Step = IteratorResult<Uint8Array, undefined>

interface Waiting {
  readonly resolve: (step: Step) => void
  readonly reject: (error: unknown) => void
}

/** Hands the pieces to the reader, one at a time. */
class Copy implements AsyncIterableIterator<Uint8Array> {
  private waiting: Waiting | undefined
  private isClosed = false
  private onWanted = (): void => undefined

  next(): Promise<Step> {
    return new Promise((resolve, reject) => {
      this.waiting = { resolve, reject }
      this.onWanted()
    })
  }

  [Symbol.asyncIterator](): this { return this }

  async return(): Promise<Step> {
    this.close()
    return { done: true, value: undefined }
  }

  /** Resolves once the reader waits for a piece, or has stopped reading. */
  async wanted(): Promise<void> {
    if (this.waiting || this.isClosed) return
    await new Promise<void>((resolve) => { this.onWanted = resolve })
  }

  async give(step: Step): Promise<void> {
    await this.wanted()
    this.waiting?.resolve(step)
    this.waiting = undefined
  }

  fail(error: unknown): void {
    this.waiting?.reject(error)
    this.waiting = undefined
  }

  close(): void {
    this.isClosed = true
    this.onWanted()
  }
}
