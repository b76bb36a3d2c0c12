import { isJsonObject, isWholeNumber } from '../http/body/json.js'
import { isPartList, type PartList } from '../tasks/definition/kept-parts.js'
import { positionSchema, readCursor } from '../tasks/definition/resume.js'
import type { UploadError } from './upload-report.js'

/** Position of an upload after a batch: where a later run continues, and the report until there. */
export interface UploadPosition {
  /** Byte of the decoded body at which a line begins. Reading continues there. */
  readonly byte: number
  /** Number of lines before that byte. */
  readonly lines: number
  /** Number of the last line in the report. Lines up to it are read again and skipped. */
  readonly done: number
  readonly succeeded: number
  readonly failed: number
  /** Number of errors that are stored beside the upload, because they are large. */
  readonly stored: number
  /** The blobs that have those errors. */
  readonly parts: PartList
  /** The errors after those, ordered by line. */
  readonly errors: readonly UploadError[]
}

/** The errors of a position that are stored beside the upload. */
export type StoredErrors = Pick<UploadPosition, 'stored' | 'parts'>

/** The position before the first line. */
export const START: UploadPosition = {
  byte: 0, lines: 0, done: 0, succeeded: 0, failed: 0, stored: 0, parts: [], errors: [],
}

const NUMBERS = ['byte', 'lines', 'done', 'succeeded', 'failed', 'stored'] as const

/** Returns whether a value has the form of a position. */
export function isPosition(value: unknown): value is UploadPosition {
  if (!isJsonObject(value) || !Array.isArray(value['errors'])) return false
  if (!isPartList(value['parts'])) return false
  return NUMBERS.every((name) => isWholeNumber(value[name]))
}

/**
 * Reads a text that `toCursor` has made.
 *
 * @throws {TypeError} It is no such text.
 */
export function fromCursor(cursor: string): UploadPosition {
  return readCursor('ndjsonUpload', cursor, isPosition)
}

/** Schema of the checkpoint of an upload. */
export const POSITION = positionSchema(isPosition)

/** Returns a position as the text that an application stores with its records. */
export function toCursor(position: UploadPosition): string {
  return JSON.stringify(position)
}
