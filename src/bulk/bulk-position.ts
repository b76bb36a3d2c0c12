import { isJsonObject, isWholeNumber } from '../http/body/json.js'
import { isArrayPosition, type ArrayPosition } from '../json-array/array-position.js'
import { isPartList, type PartList } from '../tasks/definition/kept-parts.js'
import { positionSchema } from '../tasks/definition/resume.js'

/** The text of a report: the parts in blobs, and the rest. */
export interface ReportText {
  /** `null` if the blobs failed, so that the report is lost. */
  readonly parts: PartList | null
  readonly rest: string
}

/** Counts of a report. */
export interface ReportCounts {
  readonly succeeded: number
  readonly failed: number
  /** Size of the items of the report, in UTF-16 units. */
  readonly length: number
}

/**
 * Position of a bulk task after a batch: where a later run continues, and the report until there.
 */
export interface BulkPosition extends ReportCounts {
  /** Place at which reading continues. Absent: the beginning of the body. */
  readonly place?: ArrayPosition | undefined
  readonly report: ReportText
}

/** The position before the first item. */
export const START: BulkPosition = {
  succeeded: 0, failed: 0, length: 0, report: { parts: [], rest: '' },
}

/** Returns the number of items in the report of a position. They are not written again. */
export function itemsOf({ succeeded, failed }: ReportCounts): number {
  return succeeded + failed
}

/** Returns whether a value has the form of a position. */
export function isPosition(value: unknown): value is BulkPosition {
  if (!isJsonObject(value)) return false
  const { place, succeeded, failed, length, report } = value
  const counts = [succeeded, failed, length]
  if (!counts.every(isWholeNumber)) return false
  if (place !== undefined && !isArrayPosition(place)) return false
  if (!isJsonObject(report) || typeof report['rest'] !== 'string') return false
  return report['parts'] === null || isPartList(report['parts'])
}

/** Schema of the checkpoint of a bulk task. */
export const POSITION = positionSchema(isPosition)
