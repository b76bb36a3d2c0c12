/** Why a line is no record. */
export type LineFaultCode = 'line_malformed' | 'line_not_object' | 'line_not_utf8' | 'line_too_long'

/** One bad line. */
export interface LineFault {
  /** From 1; blank lines count. */
  readonly line: number
  readonly code: LineFaultCode
}

const LF = 10
const MESSAGES: Readonly<Record<LineFaultCode, string>> = {
  line_malformed: 'is not valid JSON',
  line_not_object: 'is not a JSON object',
  line_not_utf8: 'is not valid UTF-8',
  line_too_long: 'is too long',
}

/** One sentence about a bad line. */
export function describeFault({ line, code }: LineFault): string {
  return `Line ${line} ${MESSAGES[code]}.`
}

/**
 * Cuts bytes into lines and lines into records (SPEC 4.9), the same ones however the bytes are cut
 * into chunks.
 */
export class RecordReader {
  private readonly decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  /** The beginning of a line whose end has not come yet: pieces, and how many bytes they are. */
  private pieces: Uint8Array[] = []
  private held = 0
  private dropping = false
  private line = 0

  constructor(private readonly maxLineBytes: number) {}

  /** What the lines are that end in this chunk, in order. */
  * read(chunk: Uint8Array): Generator<{ readonly record: object } | LineFault, void, undefined> {
    let start = 0
    for (let end = chunk.indexOf(LF); end !== -1; end = chunk.indexOf(LF, start)) {
      const said = this.hold(chunk.subarray(start, end))
      start = end + 1
      if (said) yield said
      const found = this.endLine()
      if (found) yield found
    }
    const said = start < chunk.length ? this.hold(chunk.slice(start)) : undefined
    if (said) yield said
  }

  /** The last line, if it has no end of its own. */
  end(): { readonly record: object } | LineFault | undefined {
    return this.held > 0 || this.dropping ? this.endLine() : undefined
  }

  private hold(piece: Uint8Array): LineFault | undefined {
    if (this.dropping) return undefined
    this.held += piece.length
    if (this.held <= this.maxLineBytes) {
      if (piece.length > 0) this.pieces.push(piece)
      // However small the pieces are, they take little more than their bytes.
      if (this.pieces.length >= 1024) this.pieces = [joined(this.pieces, this.held)]
      return undefined
    }
    this.dropping = true
    this.pieces = []
    return { line: this.line + 1, code: 'line_too_long' }
  }

  private endLine(): { readonly record: object } | LineFault | undefined {
    const { pieces, held, dropping } = this
    this.pieces = []
    this.held = 0
    this.dropping = false
    const line = ++this.line
    if (dropping) return undefined
    let text: string
    try {
      text = this.decoder.decode(joined(pieces, held))
    } catch {
      return { line, code: 'line_not_utf8' }
    }
    if (line === 1 && text.charCodeAt(0) === 0xfeff) text = text.slice(1)
    if (!/[^ \t\r]/.test(text)) return undefined
    try {
      const record: unknown = JSON.parse(text)
      if (typeof record === 'object' && record !== null && !Array.isArray(record)) return { record }
      return { line, code: 'line_not_object' }
    } catch {
      return { line, code: 'line_malformed' }
    }
  }
}

function joined(pieces: readonly Uint8Array[], length: number): Uint8Array {
  if (pieces.length === 1) return pieces[0] ?? new Uint8Array()
  const whole = new Uint8Array(length)
  let at = 0
  for (const piece of pieces) {
    whole.set(piece, at)
    at += piece.length
  }
  return whole
}
