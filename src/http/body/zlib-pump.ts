import type { Transform } from 'node:stream'

/** An engine of node:zlib, of whatever kind. */
export type ZlibEngine = Transform & { readonly bytesWritten: number }

/**
 * Drives an engine by hand: bytes in, then everything that comes of them out. Its user is never
 * inside of two waits at once, so stopping in the middle leaves nothing pending, and what has not
 * been asked for is not made beyond a chunk or two.
 */
export class ZlibPump {
  private readonly engine: ZlibEngine
  private underWay = 0
  private ending = false
  private closed = false
  private failure: Error | undefined
  private wake: () => void = ignore
  private ended = false

  constructor(engine: ZlibEngine) {
    this.engine = engine
    const woken = (): void => { this.wake() }
    engine.on('readable', woken)
    engine.on('end', () => {
      this.ended = true
      woken()
    })
    engine.on('error', (error: Error) => {
      this.failure ??= error
      woken()
    })
    engine.on('close', woken)
  }

  /**
   * Bytes of the input that the engine has used: fewer than were written when it came to its end
   * before.
   */
  get used(): number {
    return this.engine.bytesWritten
  }

  /** Bytes that were written and have not been worked on. */
  get waiting(): number {
    return this.engine.writableLength
  }

  write(bytes: Uint8Array): void {
    this.underWay++
    this.engine.write(bytes, () => {
      this.underWay--
      this.wake()
    })
  }

  /** Makes the engine give out all that it holds back, once it has come to it. */
  flush(kind: number): void {
    this.underWay++
    const { engine } = this as unknown as { engine: { flush(kind: number, done: () => void): void } }
    engine.flush(kind, () => {
      this.underWay--
      this.wake()
    })
  }

  /** There is no more input. */
  end(): void {
    this.ending = true
    this.engine.end()
  }

  /** Output that is there already. Throws what the engine failed with. */
  ready(): Uint8Array | undefined {
    const bytes = this.engine.read() as Uint8Array | null
    if (bytes === null && this.failure !== undefined) throw this.failure
    return bytes ?? undefined
  }

  /**
   * The next output of what was written; `undefined` when there is no more. Rejects with what the
   * engine failed with.
   */
  async next(): Promise<Uint8Array | undefined> {
    for (;;) {
      const bytes = this.ready()
      if (bytes !== undefined || this.ended || this.closed || (this.underWay === 0 && !this.ending)) return bytes
      await new Promise<void>((resolve) => { this.wake = resolve })
    }
  }

  /** Stops where it is. */
  close(): void {
    this.closed = true
    this.engine.destroy()
    this.wake()
  }
}

function ignore(): void {}
