import type { ErrorDetail } from './errors.js'

/** Numbers of records that succeeded and failed. */
export interface ReportSummary {
  readonly total: number
  readonly succeeded: number
  readonly failed: number
}

/** One record in a report. */
export interface ReportItem {
  /** An HTTP status. */
  readonly status: number
  readonly id?: string | number
  readonly error?: {
    readonly code: string
    /** Absent in the later items of a long report. */
    readonly message?: string
    /** The first 80 UTF-16 units of a failed line. */
    readonly excerpt?: string
    readonly details?: readonly ErrorDetail[]
  }
}

/** One item in the report of a bulk request. */
export interface BulkItem extends ReportItem {
  /** Index in the array of the request, from 0. */
  readonly index: number
}

/** Report of a bulk request. */
export interface BulkReport {
  readonly summary: ReportSummary
  /** Items in the order of the request. */
  readonly items?: readonly BulkItem[]
}

/** One line in the report of an upload. */
export interface UploadItem extends ReportItem {
  /** Line number, from 1; blank lines count. */
  readonly line: number
  /** JSON that the application has returned for a line that was written. */
  readonly result?: unknown
}

/** The body of the response to an upload. */
export interface UploadResult {
  readonly message: string
  /** Nothing was written, because the request asked for the report only. */
  readonly dryRun?: true
  readonly summary: ReportSummary
  /** The first failed lines, in their order. */
  readonly items: readonly UploadItem[]
}

/** The property that says which record an item is. */
export type RecordNumber = Exclude<keyof BulkItem | keyof UploadItem, keyof ReportItem | 'result'>
