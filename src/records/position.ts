import { isJsonObject, isWholeNumber } from '../http/body/json.js'
import type { Schema } from '../schema/schema.js'
import type { PartList } from '../stores/parts.js'
import type { ReportCounts } from './report.js'

/** The text of a report: the parts in blobs, and the rest. */
export interface ReportText {
  /** `null` if the blobs failed, so that the report is lost. */
  readonly parts: PartList | null
  readonly rest: string
}

/**
 * Position of a task after a batch of its records: where a later run continues, and the report
 * until there.
 */
export interface RecordPosition extends ReportCounts {
  /** Place in the body at which reading continues. Absent: its beginning. */
  readonly place?: object | undefined
  /**
   * Number of the last record, or line, in the report. A later run skips all records up to this
   * number.
   */
  readonly done: number
  readonly report: ReportText
}

/** The position before the first record. */
export const START: RecordPosition = {
  done: 0, succeeded: 0, failed: 0, length: 0, report: { parts: [], rest: '' },
}

export function positionCheck(
  isPlace: (place: unknown) => boolean,
): (value: unknown) => value is RecordPosition {
  return (value): value is RecordPosition => {
    if (!isJsonObject(value)) return false
    const { place, done, succeeded, failed, length, report } = value
    return [done, succeeded, failed, length].every(isWholeNumber)
      && (place === undefined || isPlace(place))
      && isJsonObject(report) && typeof report['rest'] === 'string'
      && (report['parts'] === null || isPartList(report['parts']))
  }
}

function isPartList(value: unknown): value is PartList {
  return Array.isArray(value) && value.every((each) => (
    Array.isArray(each) && each.length === 4 && each.every(isWholeNumber)
  ))
}

export function positionOf(isPlace: (place: unknown) => boolean): Schema<RecordPosition> {
  const isPosition = positionCheck(isPlace)
  const validate = (value: unknown) => (
    isPosition(value) ? { value } : { issues: [{ message: 'is not a position of this task' }] }
  )
  return { '~standard': { version: 1, vendor: 'longhaul', validate } }
}
