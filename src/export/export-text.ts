import { FULL_UNITS, type RecordText } from '../ndjson/record-text.js'

/** Text of the records of a file: `RecordText` for JSON, or `CsvText`. */
export type ExportText<T> = Pick<RecordText<T>, 'full' | 'addAll' | 'end' | 'take'>

/** A column of a CSV file: a property of the records, and its heading. */
export interface ExportColumn {
  /** Name of a property that the records have themselves. A dot is a part of the name. */
  readonly key: string
  /** Heading. Default: `key`. */
  readonly header?: string
}

/** Separator of the cells of a CSV file. */
export type CsvDelimiter = ',' | ';' | '\t' | '|'

export interface CsvSettings {
  readonly columns: readonly ExportColumn[]
  readonly escapeFormulas: boolean
  readonly delimiter: CsvDelimiter
  readonly bom: boolean
}

/** Characters that spreadsheets may read as the end of a cell, whatever the delimiter of the file is. */
const BREAKS = /[",;|\t\r\n]|^\s|\s$/
/**
 * Before a formula at the start of a text, or after a separator. Quotes protect only from the
 * delimiter of the file: a spreadsheet that splits at another one sees a quote in the middle of a
 * cell. Looks back from each sign, so that a text of many line breaks takes no quadratic time.
 */
const FORMULA = /(?=[=+\-@＝＋－＠])(?<=(?:^|[,;|\t\r\n])[\s\p{C}"]*)/gu
/** A negative number as text, as drivers and ORMs return a decimal or a bigint. */
const NEGATIVE = /^-\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/
/** Between two commas of JSON a negative number is no formula, and a mark would break the JSON. */
const FORMULA_IN_JSON = new RegExp(
  String.raw`(?!(?<=,)-\d+(?:\.\d+)?(?:[eE][+-]?\d+)?[,\]])${FORMULA.source}`, 'gu',
)
const CONTROL_START = /^(?=[\t\r\n])/

/** Writes records as CSV (RFC 4180), with a line of headings. */
export class CsvText<T extends object> implements ExportText<T> {
  private text = ''
  private hasHeader = false

  constructor(private readonly settings: CsvSettings) {}

  get full(): boolean {
    return this.text.length >= FULL_UNITS
  }

  addAll(records: readonly T[]): void {
    const { columns, bom } = this.settings
    if (!this.hasHeader) {
      if (bom) this.text += '\uFEFF'
      this.addLine(columns.map(({ key, header = key }) => this.quoted(header)))
    }
    this.hasHeader = true
    for (const record of records) {
      const values = jsonForm(record) as Readonly<Record<string, unknown>>
      this.addLine(columns.map(({ key }) => this.cell(Object.hasOwn(values, key) ? values[key] : '')))
    }
  }

  end(): void {
    if (!this.hasHeader && this.settings.columns.length > 0) this.addAll([])
  }

  take(): Buffer {
    const bytes = Buffer.from(this.text)
    this.text = ''
    return bytes
  }

  private addLine(cells: readonly string[]): void {
    // A line without anything would be skipped when it is read.
    const line = cells.length === 1 && cells[0] === '' ? '""' : cells.join(this.settings.delimiter)
    this.text += `${line}\r\n`
  }

  private cell(value: unknown): string {
    const form = jsonForm(value)
    if (typeof form === 'string') return this.quoted(form)
    if (typeof form === 'number' || typeof form === 'boolean' || typeof form === 'bigint') return String(form)
    return form === null ? '' : this.quoted(JSON.stringify(form) ?? '', FORMULA_IN_JSON)
  }

  private quoted(value: string, formula = FORMULA): string {
    const text = this.settings.escapeFormulas ? marked(value, formula) : value
    return text !== value || BREAKS.test(text) ? `"${text.replaceAll('"', '""')}"` : text
  }
}

/** Returns the properties that a CSV file has of a record. */
export function propertiesOf(record: object): readonly string[] {
  return Object.keys(jsonForm(record) as object)
}

/** Returns the JSON form of a value; `null` for an invalid Date. */
function jsonForm(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  const { toJSON } = value as { readonly toJSON?: unknown }
  return typeof toJSON === 'function' ? toJSON.call(value) as unknown : value
}

function marked(value: string, formula: RegExp): string {
  if (NEGATIVE.test(value)) return value
  const text = value.replaceAll(formula, '\'')
  return text === value ? value.replace(CONTROL_START, '\'') : text
}
