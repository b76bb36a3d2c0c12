import type { ReportSink } from './report.js'

const PIECE = 65_536

/** Keeps the items of a direct answer. Long reports are kept as bytes, outside of the heap. */
export class TextSink implements ReportSink {
  readonly separator = ','
  private text = ''
  private pieces: Uint8Array[] = []

  add(texts: string): void {
    this.text += texts
    if (this.text.length < PIECE) return
    this.pieces.push(Buffer.from(this.text))
    this.text = ''
  }

  restart(): void {
    this.text = ''
    this.pieces = []
  }

  /** The items between two texts, as the body of an answer. */
  body(before: string, after: string): string | AsyncIterable<Uint8Array | string> {
    const { text, pieces } = this
    return pieces.length === 0 ? before + text.slice(0, -1) + after : streamed(before, pieces, text, after)
  }
}

async function* streamed(
  before: string, pieces: readonly Uint8Array[], text: string, after: string,
): AsyncGenerator<Uint8Array | string, void, undefined> {
  yield before
  for (const [at, piece] of pieces.entries()) {
    // The comma behind the last item goes.
    yield at === pieces.length - 1 && text === '' ? piece.subarray(0, -1) : piece
  }
  yield text.slice(0, -1) + after
}
