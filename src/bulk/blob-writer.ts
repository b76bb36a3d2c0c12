import type { Blobs } from '../stores/blobs.js'

/** Writes a blob piece by piece. */
export class BlobWriter {
  private readonly put: Promise<unknown>
  private piece: Uint8Array | undefined
  private state: 'open' | 'ended' | 'discarded' = 'open'
  /** Wakes the blob's source, which waits for a piece or the end. */
  private wakeSource: () => void = ignore
  /** Wakes `write`, which waits until the piece is used. */
  private wakeWriter: () => void = ignore

  constructor(blobs: Blobs, key: string, ttlMs: number) {
    this.put = blobs.put(key, this.source(), { ttlMs })
    // `write` and `end` report the rejection.
    this.put.catch(ignore)
  }

  /** Resolves when the next piece can be written. Rejects if the blob cannot be written. */
  async write(piece: Uint8Array): Promise<void> {
    this.piece = piece
    this.wakeSource()
    await Promise.race([this.put, new Promise<void>((resolve) => { this.wakeWriter = resolve })])
  }

  /** Completes the blob. Rejects if it cannot be written. */
  async end(): Promise<void> {
    this.state = 'ended'
    this.wakeSource()
    await this.put
  }

  /** Discards what was written. An older blob under the same key stays. */
  discard(): void {
    this.state = 'discarded'
    this.wakeSource()
  }

  private async* source(): AsyncGenerator<Uint8Array, void, undefined> {
    for (;;) {
      const { piece, state } = this
      if (state === 'discarded') throw new Error('The text was discarded')
      if (piece !== undefined) {
        this.piece = undefined
        yield piece
        this.wakeWriter()
      } else if (state === 'ended') return
      else await new Promise<void>((resolve) => { this.wakeSource = resolve })
    }
  }
}

function ignore(): void {}
