import { ERROR_CODES, type ErrorCode } from '../http/errors.js'
import { isForClient, readFailure } from '../http/failure.js'
import type { ErrorDetail } from '../wire/errors.js'

/** Reason why a record was not written. */
export interface RecordFault {
  /** A stable code: one of longhaul, or of your application. */
  readonly code: string
  /** One sentence for the client. */
  readonly message: string
  /** Details with JSON pointers that begin at the record. */
  readonly details?: readonly ErrorDetail[] | undefined
}

/** Outcome of the write of one record. */
export interface RecordOutcome {
  /** HTTP status of the record. Default: that of a success, or 422 if there is an `error`. */
  readonly status?: number
  /** Id of the written record. */
  readonly id?: string | number | undefined
  /**
   * JSON for the report of a record that was written, such as the response of another service. Needs
   * `status`. Only reports of all lines have it: see `keepItems`.
   */
  readonly result?: unknown
  readonly error?: RecordFault
}

/** Outcome of a record that was not written. */
export interface FailedOutcome extends RecordOutcome {
  readonly status: number
  readonly error: RecordFault
}

/** Returns the outcome of a record that was not written, with one of the codes of longhaul. */
export function failed(
  code: ErrorCode, message?: string, details?: readonly ErrorDetail[],
): FailedOutcome {
  const [status, defaultMessage] = ERROR_CODES[code]
  return { status, error: { code, message: message ?? defaultMessage, details } }
}

/** Returns the outcome of a record whose write an error has rejected that was thrown for the client. */
export function rejectedBy(error: unknown): FailedOutcome {
  const { status, code, message, details } = readFailure(error)
  return { status, error: { code, message, details } }
}

/** The record was not written because of another one, or because the run was stopped. */
export const NOT_APPLIED = failed('not_applied')
/** It is not known whether the record was written. Compare with `isUnknown`. */
export const UNKNOWN_OUTCOME = failed('write_outcome_unknown')
/**
 * Returns whether it is not known if a record was written. Compares the object, because an error of the
 * application may have the same code.
 */
export function isUnknown({ error }: { readonly error?: RecordFault | undefined }): boolean {
  return error === UNKNOWN_OUTCOME.error
}

/** The schema or the write failed, and the record was not written. */
export const NOT_WRITTEN = failed('internal_error')

/**
 * Returns the outcome of a record whose write has failed: that of an error for clients, or else
 * `masked`, after passing the error to `report`.
 */
export function outcomeOfError(
  error: unknown, masked: RecordOutcome, report: (error: unknown) => void,
): RecordOutcome {
  const isRejection = isForClient(error)
  if (!isRejection || !readFailure(error).expected) report(error)
  return isRejection ? rejectedBy(error) : masked
}
