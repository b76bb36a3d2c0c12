import type { Transform } from 'node:stream'

/** Any engine of node:zlib. */
export type ZlibEngine = Transform & { readonly bytesWritten: number }

/** The member that the types of Node have for some engines only. */
interface Flushable { flush(kind: number, done: () => void): void }

/**
 * Drives an engine step by step: write bytes, then read all output they produce. The caller waits
 * for one thing at a time, so that it can stop at any point with nothing pending. The engine makes
 * no more than a chunk or two ahead of the reader.
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
   * Number of input bytes that the engine has used. Less than was written if the coding ended
   * earlier.
   */
  get used(): number {
    return this.engine.bytesWritten
  }

  /** Number of bytes that were written and are not processed yet. */
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

  /** Makes the engine output all that it holds back, after the input written so far. */
  flush(kind: number): void {
    this.underWay++
    const engine = this.engine as unknown as Flushable
    engine.flush(kind, () => {
      this.underWay--
      this.wake()
    })
  }

  /** Ends the input. */
  end(): void {
    this.ending = true
    this.engine.end()
  }

  /** Returns output that is already available. Throws the engine's error. */
  ready(): Uint8Array | undefined {
    const bytes = this.engine.read() as Uint8Array | null
    if (bytes === null && this.failure !== undefined) throw this.failure
    return bytes ?? undefined
  }

  /** Returns the next output of the input written so far, `undefined` if there is no more. */
  async next(): Promise<Uint8Array | undefined> {
    for (;;) {
      const bytes = this.ready()
      if (bytes !== undefined || this.ended || this.closed) return bytes
      if (this.underWay === 0 && !this.ending) return undefined
      await new Promise<void>((resolve) => { this.wake = resolve })
    }
  }

  /** Stops the engine at once. */
  close(): void {
    this.closed = true
    this.engine.destroy()
    this.wake()
  }
}

function ignore(): void {}
