/** The body of a request as a sequence of parts. Remembers its end instead of throwing. */
export class BodyParts {
  readonly #source: AsyncIterator<Uint8Array>
  readonly #most: number
  #waiting: Uint8Array | undefined
  #stopped = false
  /** Number of bytes that were read. */
  bytes = 0
  /** True if the body has more than `most` bytes. Those beyond are not read. */
  exceeded = false
  /** True if `stop` ended the body. */
  cut = false
  /** Set when the body has ended: with an error if the connection broke or a digest is wrong. */
  ended: { readonly error?: unknown } | undefined

  /** @param most - maximum number of bytes */
  constructor(body: AsyncIterable<Uint8Array>, most: number) {
    this.#source = body[Symbol.asyncIterator]()
    this.#most = most
  }

  /** Ends the body before the next chunk. */
  stop(): void {
    this.#stopped = true
  }

  /** Waits for the next chunk. Resolves to `false` at the end. */
  async hasMore(): Promise<boolean> {
    this.#waiting ??= await this.#next()
    return this.#waiting !== undefined
  }

  /** Yields chunks until they have `size` bytes or more, or the body ends. */
  async* part(size: number): AsyncGenerator<Uint8Array, void, undefined> {
    for (let taken = 0; taken < size && await this.hasMore();) {
      const chunk = this.#waiting as Uint8Array
      this.#waiting = undefined
      taken += chunk.byteLength
      this.bytes += chunk.byteLength
      yield chunk
    }
  }

  /** Lets go of the body. */
  close(): void {
    this.ended ??= {}
    // Not awaited, because a generator that waits for the client ends only when the client sends.
    this.#source.return?.().then(undefined, () => undefined)
  }

  async #next(): Promise<Uint8Array | undefined> {
    while (this.ended === undefined) {
      if (this.#stopped) {
        this.cut = true
        this.close()
        break
      }
      try {
        const step = await this.#source.next()
        if (step.done === true) this.ended = {}
        else if (step.value.byteLength > 0) return this.#within(step.value)
      } catch (error) {
        this.ended = { error }
      }
    }
    return undefined
  }

  /** Returns the part of a chunk that is within the maximum; `undefined` if none is. */
  #within(chunk: Uint8Array): Uint8Array | undefined {
    const left = this.#most - this.bytes
    if (chunk.byteLength <= left) return chunk
    this.exceeded = true
    this.close()
    return left > 0 ? chunk.subarray(0, left) : undefined
  }
}
