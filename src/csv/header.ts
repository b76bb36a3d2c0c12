import { httpError, type HttpError } from '../http/errors.js'
import { inexactValues } from '../http/body/exact-json.js'
import type { ErrorDetail } from '../wire/errors.js'
import { childPointer } from '../schema/pointer.js'

/** Type of the cells of a column. */
export type CsvType = 'string' | 'integer' | 'number' | 'boolean'

/** A column of a CSV file. */
export interface CsvColumn {
  /** Property of the record. Default: the name in the header row. */
  readonly property?: string
  /**
   * Type of the value. A cell that is not exactly of this type, such as `007` or `1,5` for a
   * number, fails its row. An empty cell of another type than `string` leaves the property out.
   * Default: 'string'.
   */
  readonly type?: CsvType
  /** `true`: the file need not have the column. Default: false. */
  readonly optional?: boolean
}

/** Name of the column with the error in a file of rejected rows. Not read when the file is sent again. */
export const ERROR_COLUMN = '_error'
/** Maximum length of a name in a header row, in UTF-16 units: each record repeats the names. */
const MAX_NAME = 128

export interface HeaderSettings {
  readonly columns: Readonly<Record<string, CsvColumn>> | undefined
  readonly ignoresOthers: boolean
}

interface Column {
  readonly property: string
  readonly type: CsvType
}

/** A record, or the details of the cells that are not valid. */
export type Converted = { readonly record: object } | { readonly details: readonly ErrorDetail[] }

/** The header row of a file, which makes records of the rows below. */
export class Header {
  /** Absent for a column that is not read. */
  private readonly columns: readonly (Column | undefined)[]

  /** @throws {HttpError} 400 `csv_header_invalid`. */
  constructor(readonly names: readonly string[], settings: HeaderSettings) {
    checkNames(names, settings)
    this.columns = names.map((name) => columnOf(name, settings))
  }

  /** Converts as many cells as there are columns. */
  convert(cells: readonly string[]): Converted {
    const record: Record<string, unknown> = {}
    const details: ErrorDetail[] = []
    for (const [at, column] of this.columns.entries()) {
      if (column === undefined) continue
      const { property, type } = column
      const cell = cells[at] as string
      const value = type === 'string' ? cell : valueOf(type, cell)
      if (value instanceof CellFault) {
        details.push({ pointer: childPointer('', property), message: value.message })
      } else if (value !== undefined) record[property] = value
    }
    return details.length > 0 ? { details } : { record }
  }
}

function columnOf(name: string, { columns }: HeaderSettings): Column | undefined {
  if (name === ERROR_COLUMN) return undefined
  if (columns === undefined) return { property: name, type: 'string' }
  if (!Object.hasOwn(columns, name)) return undefined
  const { property = name, type = 'string' } = columns[name] as CsvColumn
  return { property, type }
}

function checkNames(names: readonly string[], { columns, ignoresOthers }: HeaderSettings): void {
  const seen = new Set<string>()
  for (const [at, name] of names.entries()) {
    if (name === '') throw invalidHeader(`Column ${at + 1} has no name.`)
    const shown = JSON.stringify(name.slice(0, MAX_NAME))
    if (name.length > MAX_NAME || name === '__proto__') throw invalidHeader(`The name ${shown} is not allowed.`)
    if (seen.has(name)) throw invalidHeader(`Two columns have the name ${shown}.`)
    seen.add(name)
    const isKnown = columns === undefined || Object.hasOwn(columns, name) || name === ERROR_COLUMN
    if (!isKnown && !ignoresOthers) {
      const known = Object.keys(columns).join(', ')
      throw invalidHeader(`The column ${shown} is not known. Known columns are: ${known}.`)
    }
  }
  const missing = Object.entries(columns ?? {}).filter(([name, { optional }]) => !optional && !seen.has(name))
  if (missing.length === 0) return
  const list = missing.map(([name]) => JSON.stringify(name)).join(', ')
  throw invalidHeader(`The header row has no ${missing.length === 1 ? 'column' : 'columns'} ${list}.`)
}

/** Returns the 400 for a file without a valid header row. */
export function invalidHeader(why: string): HttpError {
  return httpError('csv_header_invalid', { message: `The header row is not valid. ${why}` })
}

class CellFault {
  constructor(readonly message: string) {}
}

const INTEGER = /^-?(?:0|[1-9]\d*)$/
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/

/** Returns the value of a cell; `undefined` for an empty one. */
function valueOf(type: Exclude<CsvType, 'string'>, cell: string): unknown {
  if (cell === '') return undefined
  if (type === 'boolean') {
    const text = cell.toLowerCase()
    if (text === 'true' || text === 'false') return text === 'true'
    return new CellFault('must be true or false')
  }
  const isInteger = type === 'integer'
  if (!(isInteger ? INTEGER : NUMBER).test(cell)) {
    return new CellFault(isInteger
      ? 'must be a whole number without leading zeros, such as 12'
      : 'must be a number with a decimal point and without leading zeros, such as 12.5')
  }
  const [inexact] = inexactValues(cell)
  return inexact ? new CellFault(inexact.message) : Number(cell)
}
