import type { ReportSink } from './report.js'

const PIECE = 65_536

/** Keeps the items of a direct answer. Long reports are kept as bytes, outside of the heap. */
export class TextSink implements ReportSink {
  readonly separator = ','
  private text = ''
  private pieces: Uint8Array[] = []

  add(texts: string): void {
    this.text += this.text === '' && this.pieces.length === 0 ? texts : `,${texts}`
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
    return pieces.length === 0 ? before + text + after : streamed(before, pieces, text, after)
  }
}

async function* streamed(
  before: string, pieces: readonly Uint8Array[], text: string, after: string,
): AsyncGenerator<Uint8Array | string, void, undefined> {
  yield before
  yield* pieces
  yield text + after
}
