import { ERROR_CODES, isHttpError, type ErrorCode } from '../../http/errors.js'
import { readFailure } from '../../http/failure.js'
import type { TaskFailure } from '../record/record.js'

/** A failure as the record keeps it, with its HTTP status for those who wait for the work. */
export interface Failure extends TaskFailure {
  readonly status: number
}

/** A failure with one of longhaul's codes. */
export function failureOf(code: ErrorCode): Failure {
  const [status, message] = ERROR_CODES[code]
  return { code, message, status }
}

/**
 * What clients may know of a thrown value: what a direct answer would tell; the unknown is a
 * `task_failed`.
 */
export function toFailure(error: unknown): Failure {
  const { code, message, status, details } = readFailure(error)
  return code === 'internal_error' ? failureOf('task_failed') : { code, message, status, ...details && { details } }
}

const PERMANENT = Symbol.for('longhaul.permanent')

/**
 * Marks an error so that the task is not tried again: `throw permanent(new Error('no such file'))`.
 * What clients see of it does not change.
 */
export function permanent<E extends object>(error: E): E {
  // A frozen error can't be marked; one that inherits all of it can.
  const marked = Object.isExtensible(error) ? error : Object.create(error) as E
  return Object.defineProperty(marked, PERMANENT, { value: true })
}

const AGAIN = new Set([408, 425, 429])

/** Whether trying again can't help: marked so, or an `HttpError` that blames the request. */
export function isPermanent(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false
  try {
    return PERMANENT in error || (isHttpError(error) && error.status < 500 && !AGAIN.has(error.status))
  } catch {
    // A proxy or a getter of the thrown value threw.
    return false
  }
}
