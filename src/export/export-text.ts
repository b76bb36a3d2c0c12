import { FULL_UNITS, RecordText, type Layout } from '../ndjson/record-text.js'
import { stringify } from 'csv-stringify/sync'

export interface ExportText<T> {
  readonly full: boolean
  add(records: readonly T[]): void
  /** Adds what comes after the last record. */
  end(): void
  /** Returns the text as bytes, and begins a new one. */
  take(): Uint8Array
}

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

/** A column of a CSV file: a property of the records, and its heading. */
export interface ExportColumn {
  /** Name of a property of the records. */
  readonly key: string
  /** Heading. Default: `key`. */
  readonly header?: string
}

/** Settings of a CSV file. */
export interface CsvSettings {
  readonly columns: readonly ExportColumn[]
  readonly escapeFormulas: boolean
}

const LINE_BREAK = /[\r\n]/

/** Writes records as CSV (RFC 4180), with a line of headings. */
export class CsvText<T extends object> implements ExportText<T> {
  private text = ''
  private hasHeader = false

  constructor(private readonly settings: CsvSettings) {}

  get full(): boolean {
    return this.text.length >= FULL_UNITS
  }

  add(records: readonly T[]): void {
    const { columns, escapeFormulas } = this.settings
    this.text += stringify([...records], {
      header: !this.hasHeader, columns: [...columns], escape_formulas: escapeFormulas,
      record_delimiter: 'windows',
      // A single CR or LF would begin its own line, where a text could be a formula.
      quoted_match: LINE_BREAK,
      cast: {
        string: (value) => (escapeFormulas && value.startsWith('\n') ? `'${value}` : value),
        boolean: (value) => String(value),
        date: (value) => value.toISOString(),
      },
    })
    this.hasHeader = true
  }

  end(): void {
    if (!this.hasHeader && this.settings.columns.length > 0) this.add([])
  }

  take(): Buffer {
    const bytes = Buffer.from(this.text)
    this.text = ''
    return bytes
  }
}
