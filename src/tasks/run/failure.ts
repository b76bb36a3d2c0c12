import {
  ERROR_CODES, httpError, isReplaced, type ErrorCode, type HttpError,
} from '../../http/errors.js'
import { isForClient, readFailure } from '../../http/failure.js'
import type { ErrorHeaders, StoredTaskFailure } from '../record/details.js'

const STORED_HEADERS = ['retry-after', 'link'] as const
const MAX_HEADER_LENGTH = 1024

export function failureOf(code: ErrorCode): StoredTaskFailure {
  const [status, message] = ERROR_CODES[code]
  return { code, message, status }
}

/**
 * Returns the part of a thrown value that clients may see. An unknown error is masked as
 * `task_failed`.
 */
export function toFailure(error: unknown): StoredTaskFailure {
  const { code, message, status, details, headers } = readFailure(error)
  if (code === 'internal_error') return failureOf('task_failed')
  const stored = storedHeaders(headers)
  return { code, message, status, ...details && { details }, ...stored && { headers: stored } }
}

function storedHeaders(headers: Readonly<Record<string, string>>): ErrorHeaders | undefined {
  const kept: Record<string, string> = {}
  for (const name of STORED_HEADERS) {
    const value = headers[name]
    if (value !== undefined && value.length <= MAX_HEADER_LENGTH) kept[name] = value
  }
  return Object.keys(kept).length === 0 ? undefined : kept
}

const PERMANENT = Symbol.for('longhaul.permanent')

/** Marks an error so that the task is not retried: `throw permanent(new Error('no such file'))`. */
export function permanent<E extends object>(error: E): E {
  // A frozen error cannot be marked, but an object that inherits from it can.
  const marked = Object.isExtensible(error) ? error : Object.create(error) as E
  return Object.defineProperty(marked, PERMANENT, { value: true })
}

/** Statuses below 500 for errors that may pass. */
const TEMPORARY = new Set([408, 425, 429])

/** Returns whether a retry cannot help. */
export function isPermanent(error: unknown): boolean {
  if (typeof error !== 'object' || error === null) return false
  try {
    if (PERMANENT in error) return true
    // Another run has written later, so the next attempt continues after that.
    if (isReplaced(error)) return false
    const { status } = readFailure(error)
    return isForClient(error) && status < 500 && !TEMPORARY.has(status)
  } catch {
    // A proxy or a getter of the thrown value threw.
    return false
  }
}

export function tooManyTasks(): HttpError {
  return httpError('too_many_tasks', { headers: { 'retry-after': '5' } })
}

export function queueFull(): HttpError {
  return httpError('queue_full', { headers: { 'retry-after': '1' } })
}

export function shuttingDown(): HttpError {
  return httpError('shutting_down', { headers: { 'retry-after': '5' } })
}
