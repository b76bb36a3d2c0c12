import { readFailure } from '../http/failure.js'

/**
 * Statuses that say that nothing was done: the request itself, its credentials or its conditions
 * were refused.
 */
const REFUSED = new Set([400, 401, 403, 404, 405, 406, 408, 411, 412, 413, 414, 415, 416, 417, 421, 425, 426, 428, 429, 431, 501])

/** Failures of `Tasks.accept` after which nothing of the task is left. */
const NOT_ACCEPTED = new Set(['queue_full', 'shutting_down', 'store_full'])

/**
 * Returns whether an answer says that nothing was done, so that a retry may do the work. Besides
 * the statuses that blame the request, that is a 503 that asks to come again by Retry-After.
 * Anything else was decided by the work: 409, 422, 500.
 */
export function isRefusal(status: number, headers: Readonly<Record<string, unknown>>): boolean {
  return REFUSED.has(status) || (status === 503 && headers['retry-after'] !== undefined)
}

/** Returns whether an error says for certain that a task was not accepted. */
export function wasNotAccepted(error: unknown): boolean {
  const { status, code, expected } = readFailure(error)
  return NOT_ACCEPTED.has(code) || (status < 500 && expected)
}
