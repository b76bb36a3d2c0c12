import { ERROR_CODES, type ErrorCode, type ErrorDetail, type HttpError } from '../http/errors.js'
import { readFailure } from '../http/failure.js'

/** Why an item was not taken, as the report shows it. */
export interface ItemFault {
  /** An HTTP status. */
  readonly status: number
  /** Stable. */
  readonly code: string
  /** One sentence. */
  readonly message: string
  /** What is wrong, with JSON pointers that begin at the item. */
  readonly details?: readonly ErrorDetail[] | undefined
}

/** A fault with one of longhaul's codes. */
export function itemFault(code: ErrorCode, message?: string, details?: readonly ErrorDetail[]): ItemFault {
  const [status, sentence] = ERROR_CODES[code]
  return { status, code, message: message ?? sentence, details }
}

/** A refusal by the repository. */
export function refusedBy(error: HttpError): ItemFault {
  const { status, code, message, details } = readFailure(error)
  return { status, code, message, details }
}

/** Every item of an atomic batch but the one that stopped it. */
export const NOT_APPLIED = itemFault('not_applied')
/** The repository failed, and nobody can tell whether before or after it wrote. */
export const UNKNOWN_OUTCOME = itemFault('write_outcome_unknown')
/** Something failed before anything was written. */
export const FAILED = itemFault('internal_error')
/** The record of an update is not there. */
export const NO_RECORD = itemFault('not_found', 'There is no such record.')
/** What would not have been kept as it was sent. */
export const INEXACT_MESSAGE = 'A value can not be kept as it was sent.'
