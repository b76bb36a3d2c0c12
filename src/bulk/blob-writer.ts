import type { Blobs } from '../stores/blobs.js'

/** Writes a blob piece by piece. */
export class BlobWriter {
  private readonly put: Promise<unknown>
  private piece: Uint8Array | undefined
  private over: 'ended' | 'discarded' | undefined
  /** The blob asks for more. */
  private wake: () => void = ignore
  /** The blob has used the piece up. */
  private used: () => void = ignore

  constructor(blobs: Blobs, key: string, ttlMs: number) {
    this.put = blobs.put(key, this.content(), { ttlMs })
    // Who writes or ends it hears of that.
    this.put.catch(ignore)
  }

  /** Resolves when there is room for the next piece. Rejects when the blob can't be written. */
  async write(piece: Uint8Array): Promise<void> {
    this.piece = piece
    this.wake()
    await Promise.race([this.put, new Promise<void>((resolve) => { this.used = resolve })])
  }

  /** Rejects when the blob is not there then. */
  async end(): Promise<void> {
    this.over = 'ended'
    this.wake()
    await this.put
  }

  /** Leaves what was there before. */
  discard(): void {
    this.over = 'discarded'
    this.wake()
  }

  private async* content(): AsyncGenerator<Uint8Array, void, undefined> {
    for (;;) {
      const { piece, over } = this
      if (over === 'discarded') throw new Error('This text was taken back')
      if (piece !== undefined) {
        this.piece = undefined
        yield piece
        this.used()
      } else if (over === 'ended') return
      else await new Promise<void>((resolve) => { this.wake = resolve })
    }
  }
}

function ignore(): void {}
