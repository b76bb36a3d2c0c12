import { httpError, type HttpError } from '../../http/errors.js'
import { parseTimestamp } from '../../http/fields/timestamp.js'
import type { Start } from '../intake/start-time.js'

/** The start that a client asks for: a time in milliseconds since 1970, or a delay. */
export type RequestedStart =
  | { readonly kind: 'time', readonly at: number }
  | { readonly kind: 'delay', readonly delayMs: number }

/** Maximum time until a start, in milliseconds: 366 days. */
const MAX_DELAY_MS = 366 * 86_400_000

/** Tolerance for a time in the past, in milliseconds: the way of the request takes time. */
const LATE_MS = 1000

/** A duration of RFC 3339 (appendix A), without years and months, whose length varies. */
const DURATION = /^P(?!$)(?:(\d{1,4})W|(?:(\d{1,6})D)?(?:T(?!$)(?:(\d{1,7})H)?(?:(\d{1,8})M)?(?:(\d{1,9})S)?)?)$/

const UNITS_MS = [604_800_000, 86_400_000, 3_600_000, 60_000, 1000]

/**
 * Parses the `startAt` of a request: a timestamp such as `2026-12-24T18:00:00Z`, or a duration such
 * as `PT90M`.
 *
 * @throws {HttpError} 400 `invalid_start_at`: it is neither.
 */
export function parseStart(value: unknown): RequestedStart {
  if (typeof value !== 'string') throw refused('invalid_start_at', 'must be string')
  const at = parseTimestamp(value)
  if (at !== undefined) return { kind: 'time', at }
  const delayMs = parseDuration(value)
  if (delayMs !== undefined) return { kind: 'delay', delayMs }
  throw refused('invalid_start_at', 'must be a time such as 2026-12-24T18:00:00Z, or PT90M')
}

/**
 * Returns the start of a task.
 *
 * @param now - the time of the queue
 * @throws {HttpError} 422 `start_at_out_of_range`: it is in the past, or more than a year ahead.
 */
export function startFrom(requested: RequestedStart, now: number): Start {
  const delayMs = requested.kind === 'time' ? requested.at - now : requested.delayMs
  if (delayMs < -LATE_MS) throw refused('start_at_out_of_range', 'must not be in the past')
  if (delayMs > MAX_DELAY_MS) {
    throw refused('start_at_out_of_range', 'must be at most a year ahead')
  }
  return { at: now + delayMs, delayMs: Math.max(delayMs, 0) }
}

function parseDuration(text: string): number | undefined {
  const parts = DURATION.exec(text)?.slice(1)
  return parts?.reduce((ms, part = '0', at) => ms + Number(part) * (UNITS_MS[at] ?? 0), 0)
}

function refused(code: 'invalid_start_at' | 'start_at_out_of_range', message: string): HttpError {
  return httpError(code, { details: [{ pointer: '/startAt', message }] })
}
