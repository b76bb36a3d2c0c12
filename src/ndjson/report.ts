import type { ErrorDetail } from '../http/errors.js'
import { cutText } from '../runtime/cut-text.js'
import { excerptOf, type LineError } from './line-error.js'

/** Details of one record that are kept. */
const MAX_DETAILS = 5
/**
 * Codes and sentences of the host's are cut above so many UTF-16 units: with all its errors, a
 * report has to fit into a record.
 */
const MAX_TEXT = 300

/** Why a record was not taken, though its line was good. */
export interface RecordFault {
  /** A stable code of your own. */
  readonly code: string
  /** One sentence that the client sees. */
  readonly message: string
  readonly details?: readonly ErrorDetail[]
}

/** What became of one record; `write` gives one for each, or nothing when all went well. */
export interface RecordOutcome {
  /**
   * An HTTP status for the record, as in bulk reports. Default: 200, and 422 where there is an
   * `error`.
   */
  readonly status?: number
  readonly id?: string | number
  readonly error?: RecordFault
}

/** One line of the upload that failed, as the client sees it. */
export interface UploadError extends Omit<LineError, 'code'> {
  /** A `LineErrorCode`, `record_invalid`, or a code of the host's. */
  readonly code: string
  readonly details?: readonly ErrorDetail[]
}

/** How many lines were read, and what became of them. */
export interface UploadSummary {
  /** Lines that were not blank. */
  readonly total: number
  readonly succeeded: number
  readonly failed: number
}

/** The answer to an upload. */
export interface UploadResult {
  readonly message: string
  readonly summary: UploadSummary
  /** The first ones, by line. */
  readonly errors: readonly UploadError[]
}

/** Counts what becomes of the lines, and keeps the first errors. */
export class UploadReport {
  private succeeded = 0
  private failed = 0
  /**
   * Two lists, each in the order of lines, of at most `maxErrors`. Their first `maxErrors` are
   * those of the whole.
   */
  private readonly bad: UploadError[] = []
  private readonly refused: UploadError[] = []

  constructor(private readonly maxErrors: number) {}

  /** Adds lines that were no records; of some only the number is known. */
  addBad(errors: readonly LineError[], failed: number): void {
    this.failed += failed
    for (const error of errors) {
      if (this.bad.length >= this.maxErrors) return
      this.bad.push(error)
    }
  }

  addGood(count: number): void {
    this.succeeded += count
  }

  addRefused(line: number, fault: RecordFault, record: unknown): void {
    this.failed++
    if (this.refused.length < this.maxErrors) this.refused.push(refusal(line, fault, record))
  }

  get total(): number {
    return this.succeeded + this.failed
  }

  get summary(): UploadSummary {
    return { total: this.total, succeeded: this.succeeded, failed: this.failed }
  }

  get errors(): UploadError[] {
    return [...this.bad, ...this.refused].sort((a, b) => a.line - b.line).slice(0, this.maxErrors)
  }

  get message(): string {
    const { total, succeeded, failed } = this.summary
    const lines = `${total} ${total === 1 ? 'record' : 'records'}`
    return `Read ${lines}: ${succeeded} succeeded, ${failed} failed.`
  }

  get result(): UploadResult {
    return { message: this.message, summary: this.summary, errors: this.errors }
  }
}

/** The error for a record that was refused. */
export function refusal(line: number, { code, message, details }: RecordFault, record: unknown): UploadError {
  const few = details?.slice(0, MAX_DETAILS).map((detail) => (
    { pointer: cutText(detail.pointer, MAX_TEXT), message: cutText(detail.message, MAX_TEXT) }
  ))
  const said = { code: cutText(code, MAX_TEXT), message: cutText(message, MAX_TEXT), excerpt: excerptOf(textOf(record)) }
  return { line, ...said, ...few && { details: few } }
}

function textOf(record: unknown): string {
  try {
    return (JSON.stringify(record)) ?? ''
  } catch {
    // A schema has made something of it that JSON can't write.
    return ''
  }
}
