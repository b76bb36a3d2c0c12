import { FULL_UNITS, type RecordText } from '../ndjson/record-text.js'
import { stringify } from 'csv-stringify/sync'

/** Text of the records of a file: `RecordText` for JSON, or `CsvText`. */
export type ExportText<T> = Pick<RecordText<T>, 'full' | 'addAll' | 'end' | 'take'>

/** A column of a CSV file: a property of the records, and its heading. */
export interface ExportColumn {
  /** Name of a property of the records. */
  readonly key: string
  /** Heading. Default: `key`. */
  readonly header?: string
}

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

  addAll(records: readonly T[]): void {
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
    if (!this.hasHeader && this.settings.columns.length > 0) this.addAll([])
  }

  take(): Buffer {
    const bytes = Buffer.from(this.text)
    this.text = ''
    return bytes
  }
}
