import { ERROR_CODES, type ErrorCode, type ErrorDetail, type HttpError } from '../http/errors.js'
import { readFailure } from '../http/failure.js'

/** Reason why an item was not written, as the report shows it. */
export interface ItemError {
  /** An HTTP status. */
  readonly status: number
  /** A stable code. */
  readonly code: string
  /** One sentence. */
  readonly message: string
  /** Details with JSON pointers that begin at the item. */
  readonly details?: readonly ErrorDetail[] | undefined
}

/** Returns an error with one of the codes of longhaul. */
export function itemError(
  code: ErrorCode, message?: string, details?: readonly ErrorDetail[],
): ItemError {
  const [status, defaultMessage] = ERROR_CODES[code]
  return { status, code, message: message ?? defaultMessage, details }
}

/** Returns the error of an item that the repository has refused. */
export function refusalOf(error: HttpError): ItemError {
  const { status, code, message, details } = readFailure(error)
  return { status, code, message, details }
}

/** The item was not written because of another one, or because the run was stopped. */
export const NOT_APPLIED = itemError('not_applied')
/** The repository failed, and it is unknown if the item was written. */
export const UNKNOWN_OUTCOME = itemError('write_outcome_unknown')
/** The schema or the repository failed, and the item was not written. */
export const NOT_WRITTEN = itemError('internal_error')
/** The record of an update does not exist. */
export const NO_RECORD = itemError('not_found', 'There is no such record.')
