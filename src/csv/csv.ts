import { httpError } from '../http/errors.js'
import { noRecord, type UploadSource } from '../ndjson/upload-source.js'
import { inPieces } from '../ndjson/rejected-lines.js'
import { areMediaTypes } from '../ndjson/media-type.js'
import { checkNames } from '../runtime/option-names.js'
import { oneOf, readOptions, value, whole, type OptionTable } from '../runtime/options.js'
import { CR, Gathered, LF, withRest } from '../runtime/text.js'
import type { UploadItem } from '../wire/report.js'
import { ERROR_COLUMN, Header, invalidHeader, type CsvColumn, type HeaderSettings } from './header.js'
import { RowReader, type Row } from './row-reader.js'

/** Options of `csv`. */
export interface CsvOptions {
  /**
   * Columns by their name in the header row. Other columns are not known. Default: all columns are
   * properties with text, under their names.
   */
  readonly columns?: Readonly<Record<string, CsvColumn>>
  /**
   * Treatment of columns that are not in `columns`. `reject` responds with 400 `csv_header_invalid`,
   * `ignore` leaves them out. Default: `reject`.
   */
  readonly otherColumns?: 'reject' | 'ignore'
  /**
   * Character between cells. Default: the one of `,`, `;`, a tab and `|` that the header row has most
   * often, or that a first line such as `sep=;` names.
   */
  readonly delimiter?: ',' | ';' | '\t' | '|'
  /** Maximum size of a row in bytes. A larger row fails. Default: 1_048_576 (1 MiB). */
  readonly maxRowBytes?: number
  /** Media types of the bodies. Other bodies get a 415. Default: `['text/csv']`. */
  readonly mediaTypes?: readonly string[]
}

const DELIMITERS = [',', ';', '\t', '|'] as const
const MAX_ROW_BYTES = 268_435_456

const OPTIONS = {
  columns: value('an object with a column for each name', (given) => typeof given === 'object' && given !== null),
  otherColumns: oneOf(['reject', 'ignore'], { default: 'reject' }),
  delimiter: oneOf(DELIMITERS),
  maxRowBytes: whole({ min: 1, max: MAX_ROW_BYTES, default: 1_048_576 }),
  mediaTypes: value<readonly string[]>('an array of media types without parameters', areMediaTypes),
} satisfies OptionTable<CsvOptions>

const COLUMN = { property: 0, type: 0, optional: 0 } satisfies Record<keyof CsvColumn, 0>
const TYPES: readonly unknown[] = [undefined, 'string', 'integer', 'number', 'boolean']

interface CsvSettings extends HeaderSettings {
  readonly delimiter: string | undefined
  readonly maxRowBytes: number
}

/**
 * Makes CSV with a header row (RFC 4180) a source of records for `ndjsonUpload`. Reads what
 * spreadsheets write: a byte order mark, `;` or a tab between the cells, CRLF, line breaks in quoted
 * cells, and empty rows. The body must be UTF-8; UTF-16 gets a 415.
 *
 * `line` in the report is the number of the row, as a spreadsheet shows it: the header is row 1. A
 * header that is not valid gets 400 `csv_header_invalid`. A row fails as `row_malformed` (quotes),
 * `cells_missing`, `cells_extra`, `cell_invalid` (its type), `row_not_utf8` or `row_too_large`. The
 * rows after it are read. With `rejectedFile` the task has the failed rows in `rejected.csv`, with the
 * error in a column `_error`, which is not read when the file is sent again.
 *
 * A task that continues reads the body from its start, and skips the rows that were written.
 * @example
 * import { csv } from 'longhaul/csv'
 * import { ndjsonUpload } from 'longhaul/ndjson'
 *
 * export const upload = ndjsonUpload({
 *   source: csv({ columns: { 'E-mail': { property: 'email' }, age: { type: 'integer', optional: true } } }),
 *   write: async (users) => { console.log(`${users.length} users`) },
 * })
 * @throws {TypeError} An option is unknown or not valid.
 */
export function csv(options: CsvOptions = {}): UploadSource {
  const read = readOptions('csv', options, OPTIONS)
  const { columns, otherColumns, delimiter, maxRowBytes, mediaTypes = ['text/csv'] } = read
  for (const [name, column] of Object.entries(columns ?? {})) checkColumn(name, column)
  const settings = { columns, ignoresOthers: otherColumns === 'ignore', delimiter, maxRowBytes }
  return {
    mediaTypes,
    read: (body) => recordsOf(body, settings),
    rejected: {
      extension: 'csv', type: 'text/csv; charset=utf-8',
      write: (body, failed) => inPieces(rejectedRows(body, failed, settings)),
    },
  }
}

function checkColumn(name: string, column: CsvColumn): void {
  checkNames(`csv: columns[${JSON.stringify(name)}]`, column, COLUMN)
  const { property = name, type } = column
  if (TYPES.includes(type) && typeof property === 'string' && property !== '__proto__') return
  throw new TypeError(`csv: columns[${JSON.stringify(name)}] needs a type of string, integer, number or`
    + ' boolean, and a property other than __proto__')
}

async function* recordsOf(
  body: AsyncIterable<Uint8Array>, settings: CsvSettings,
): AsyncGenerator<unknown, void, undefined> {
  let header: Header | undefined
  const { rows } = await openRows(body, settings)
  for await (const row of rows) {
    if (isBlank(row)) yield noRecord()
    else if (header === undefined) {
      header = headerOf(row, settings)
      yield noRecord()
    } else yield recordOf(row, header)
  }
  if (header === undefined) throw invalidHeader('The file has no rows.')
}

function headerOf({ cells, fault }: Row, settings: CsvSettings): Header {
  if (fault !== undefined || cells === undefined) throw invalidHeader(fault?.message ?? '')
  return new Header(cells.map((name) => name.trim()), settings)
}

/** A spreadsheet writes an empty row as delimiters. */
function isBlank({ cells, fault }: Row): boolean {
  return fault === undefined && cells !== undefined && cells.every((cell) => cell === '')
}

function recordOf({ text: excerpt, cells = [], fault }: Row, header: Header): unknown {
  if (fault) return noRecord({ ...fault, excerpt })
  const { names } = header
  if (cells.length !== names.length) {
    const code = cells.length < names.length ? 'cells_missing' : 'cells_extra'
    const message = `The row has ${counted(cells)}, and the header row has ${names.length}.`
    return noRecord({ code, message, excerpt })
  }
  const converted = header.convert(cells)
  if ('record' in converted) return converted.record
  const { details } = converted
  return noRecord({ code: 'cell_invalid', message: 'A cell is not valid.', details, excerpt })
}

function counted({ length }: readonly string[]): string {
  return `${length} ${length === 1 ? 'cell' : 'cells'}`
}

/** Reads the beginning of a file. Returns its rows, and the character between their cells. */
async function openRows(body: AsyncIterable<Uint8Array>, settings: CsvSettings): Promise<{
  readonly delimiter: string
  readonly rows: AsyncGenerator<Row, void, undefined>
}> {
  const chunks = body[Symbol.asyncIterator]()
  const start = await readFirstLine(chunks, settings.maxRowBytes)
  const { from, found } = formatOf(start)
  const { delimiter = found, maxRowBytes } = settings
  const reader = new RowReader(delimiter, maxRowBytes)
  return { delimiter, rows: rowsOf(withRest(start.subarray(from), chunks), reader) }
}

async function* rowsOf(
  body: AsyncIterable<Uint8Array>, reader: RowReader,
): AsyncGenerator<Row, void, undefined> {
  for await (const chunk of body) {
    for (let at = 0; at < chunk.byteLength; at += BLOCK_BYTES) {
      yield* reader.read(chunk.subarray(at, at + BLOCK_BYTES))
    }
  }
  yield* reader.finish()
}

const BLOCK_BYTES = 65_536

/** Reads until the first line has ended, or is too long. */
async function readFirstLine(chunks: AsyncIterator<Uint8Array>, maxBytes: number): Promise<Uint8Array> {
  const start = new Gathered()
  for (let isOver = false; !isOver && start.size <= maxBytes;) {
    const next = await chunks.next()
    if (next.done === true) break
    start.add(next.value)
    isOver = start.size > 3 && (next.value.includes(LF) || next.value.includes(CR))
  }
  return start.bytes
}

/** The first line of Excel that names the delimiter. */
const SEPARATOR = /^sep=([,;\t|])(?:\r\n|\r|\n|$)/i

/** Returns the delimiter that the first line shows, and where the first row begins. */
function formatOf(start: Uint8Array): { readonly from: number, readonly found: string } {
  const [first, second, third] = start
  const isUtf16 = (first === 0xff && second === 0xfe) || (first === 0xfe && second === 0xff)
  if (isUtf16 || start.subarray(0, 4).includes(0)) {
    throw httpError('unsupported_media_type', {
      message: 'The file is UTF-16. Save it as UTF-8, in a spreadsheet as "CSV UTF-8".',
    })
  }
  const from = first === 0xef && second === 0xbb && third === 0xbf ? 3 : 0
  const text = Buffer.from(start.subarray(from)).toString('latin1')
  const [line = '', named] = SEPARATOR.exec(text) ?? []
  if (named !== undefined) return { from: from + line.length, found: named }
  const [names = ''] = /^[^\r\n]*/.exec(text.replaceAll(/"[^"]*"/g, '')) ?? []
  const counts = DELIMITERS.map((delimiter) => names.split(delimiter).length)
  return { from, found: DELIMITERS[counts.indexOf(Math.max(...counts))] ?? ',' }
}

/** Yields a file with the failed rows, and their errors in the last column. */
async function* rejectedRows(
  body: AsyncIterable<Uint8Array>, failed: AsyncIterable<UploadItem>, settings: CsvSettings,
): AsyncGenerator<Uint8Array, void, undefined> {
  const items = failed[Symbol.asyncIterator]()
  let item = await items.next()
  let number = 0
  let names: readonly string[] | undefined
  const { delimiter, rows } = await openRows(body, settings)
  for await (const row of rows) {
    number++
    if (item.done === true) return
    if (names === undefined) {
      if (isBlank(row)) continue
      names = row.cells ?? []
      // A byte order mark tells Excel that the file is UTF-8.
      yield line(`\ufeff${textOf([...withoutErrors(names, names), ERROR_COLUMN], delimiter)}`)
    } else if (item.value.line === number) {
      yield line(textOf(rejectedRow(row, names, item.value), delimiter))
      item = await items.next()
    }
  }
}

function rejectedRow(
  { cells, text }: Row, names: readonly string[], { error }: UploadItem,
): readonly string[] {
  const details = error?.details?.map(({ pointer, message }) => ` ${pointer} ${message}.`).join('') ?? ''
  const reason = `${error?.code ?? ''}: ${error?.message ?? ''}${details}`
  const kept = withoutErrors(cells ?? [text], names)
  const width = withoutErrors(names, names).length
  const padded = Array.from({ length: width }, (_, at) => kept[at] ?? '')
  return [...padded, reason, ...kept.slice(width)]
}

/** Leaves out the column of errors of a file that is sent again. */
function withoutErrors(cells: readonly string[], names: readonly string[]): readonly string[] {
  const errors = names.findIndex((name) => name.trim() === ERROR_COLUMN)
  return errors === -1 ? cells : cells.filter((_, at) => at !== errors)
}

function textOf(cells: readonly string[], delimiter: string): string {
  return cells.map((cell) => (
    /[",;|\t\r\n]|^\s|\s$/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell
  )).join(delimiter)
}

function line(text: string): Uint8Array {
  return Buffer.from(`${text}\r\n`)
}
