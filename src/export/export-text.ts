import { RecordText, type Layout } from '../ndjson/record-text.js'

/** The text of one part, in pieces. */
export interface ExportText<T> {
  /** The text is long enough for a piece. */
  readonly full: boolean
  /** Adds records. */
  add(records: readonly T[]): void
  /** Adds what comes after the last record. */
  end(): void
  /** Returns the text as bytes, and begins a new one. */
  take(): Uint8Array
}

/** Writes records as NDJSON, or as one JSON array. */
export class JsonText<T> implements ExportText<T> {
  private readonly text: RecordText<T>

  constructor(stringify: (record: T) => string | undefined, layout: Layout) {
    this.text = new RecordText(stringify, layout)
  }

  get full(): boolean {
    return this.text.full
  }

  add(records: readonly T[]): void {
    for (const record of records) this.text.add(record)
  }

  end(): void {
    this.text.end()
  }

  take(): Uint8Array {
    return this.text.take()
  }
}
