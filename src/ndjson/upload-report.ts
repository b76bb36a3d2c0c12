import type { ErrorDetail } from '../http/errors.js'
import { cutText } from '../runtime/text.js'
import { excerptOf, type LineError } from './line-error.js'

/** Maximum number of details that are kept of one record. */
const MAX_DETAILS = 5
/**
 * Maximum length of codes and messages of the application, in UTF-16 units. A report with
 * `maxErrors` errors has to fit into the record of a task.
 */
const MAX_TEXT = 300

/** Reason why a record was not written, although its line is valid. */
export interface RecordFault {
  /** Stable code, defined by the application. */
  readonly code: string
  /** One sentence for the client. */
  readonly message: string
  readonly details?: readonly ErrorDetail[]
}

/** Outcome of one record, returned by `write`. */
export interface RecordOutcome {
  /** HTTP status of the record. Default: 200, or 422 if there is an `error`. */
  readonly status?: number
  readonly id?: string | number
  readonly error?: RecordFault
}

/** A failed line, as the client sees it. */
export interface UploadError extends Omit<LineError, 'code'> {
  /** A `LineErrorCode`, `record_invalid`, or a code of the application. */
  readonly code: string
  readonly details?: readonly ErrorDetail[]
}

/** Numbers of lines that succeeded and failed. */
export interface UploadSummary {
  /** Lines that are not blank. */
  readonly total: number
  readonly succeeded: number
  readonly failed: number
}

/** The body of the answer to an upload. */
export interface UploadResult {
  readonly message: string
  readonly summary: UploadSummary
  /** The first failed lines, ordered by line. */
  readonly errors: readonly UploadError[]
}

/** Counts the outcomes of lines and keeps the first errors. */
export class UploadReport {
  private succeeded = 0
  private failed = 0
  /**
   * Two lists, each ordered by line and bounded by `maxErrors`. Together they contain the first
   * `maxErrors` errors of the upload.
   */
  private readonly badLines: UploadError[] = []
  private readonly failedRecords: UploadError[] = []

  constructor(private readonly maxErrors: number) {}

  /** Adds lines that are not records. `failed` counts those that are not in `errors`, too. */
  addBadLines(errors: readonly LineError[], failed: number): void {
    this.failed += failed
    for (const error of errors) {
      if (this.badLines.length >= this.maxErrors) return
      this.badLines.push(error)
    }
  }

  addSucceeded(count: number): void {
    this.succeeded += count
  }

  addFailed(line: number, fault: RecordFault, record: unknown): void {
    this.failed++
    if (this.failedRecords.length >= this.maxErrors) return
    this.failedRecords.push(recordError(line, fault, record))
  }

  /** Continues the report of an earlier run. */
  continueFrom(succeeded: number, failed: number, errors: readonly UploadError[]): void {
    this.succeeded = succeeded
    this.failed = failed
    this.badLines.push(...errors)
  }

  /** Returns a copy, to which outcomes can be added without a change of this report. */
  copy(): UploadReport {
    const copy = new UploadReport(this.maxErrors)
    copy.continueFrom(this.succeeded, this.failed, this.badLines)
    copy.failedRecords.push(...this.failedRecords)
    return copy
  }

  get total(): number {
    return this.succeeded + this.failed
  }

  get summary(): UploadSummary {
    return { total: this.total, succeeded: this.succeeded, failed: this.failed }
  }

  get errors(): UploadError[] {
    const all = [...this.badLines, ...this.failedRecords]
    return all.sort((a, b) => a.line - b.line).slice(0, this.maxErrors)
  }

  get message(): string {
    const { total, succeeded, failed } = this.summary
    const records = `${total} ${total === 1 ? 'record' : 'records'}`
    return `Read ${records}: ${succeeded} succeeded, ${failed} failed.`
  }

  get result(): UploadResult {
    return { message: this.message, summary: this.summary, errors: this.errors }
  }
}

/** Returns the error of a record, with texts and details cut to their limits. */
export function recordError(line: number, fault: RecordFault, record: unknown): UploadError {
  const details = fault.details?.slice(0, MAX_DETAILS).map(({ pointer, message }) => (
    { pointer: cutText(pointer, MAX_TEXT), message: cutText(message, MAX_TEXT) }
  ))
  return {
    line,
    code: cutText(fault.code, MAX_TEXT),
    message: cutText(fault.message, MAX_TEXT),
    excerpt: excerptOf(jsonOf(record)),
    ...details && { details },
  }
}

function jsonOf(record: unknown): string {
  try {
    return JSON.stringify(record) ?? ''
  } catch {
    // The schema has returned a value that JSON cannot represent, such as a bigint.
    return ''
  }
}
