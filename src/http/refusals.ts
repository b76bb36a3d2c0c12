import { HttpError, isHttpError } from './errors.js'
import { readFailure } from './failure.js'

/** Time between two reports of one code to one listener, in milliseconds. */
const QUIET_MS = 60_000

/**
 * Codes of requests that the server has refused because of its own limits. Any client can cause
 * them at will, so a report for each request would fill the log.
 */
const REFUSALS = new Set([
  'overloaded', 'queue_full', 'run_timeout', 'service_unavailable', 'shutting_down', 'store_full',
  'sync_timeout',
])

/** The last report of a code. */
interface LastReport {
  /** Time by `performance.now()`. */
  at: number
  /** Number of refusals since then. */
  more: number
}

const reports = new WeakMap<object, Map<string, LastReport>>()

/**
 * Returns what to tell a listener about an error. A refusal is told once for each code and minute,
 * as an error whose stack is one line, with the number of those since the last one. Other refusals
 * are only counted.
 *
 * @returns `undefined`: nothing is to be told
 */
export function dueReport(
  listener: object, error: unknown,
): { readonly error: unknown } | undefined {
  const { status, code } = readFailure(error)
  if (!REFUSALS.has(code) || !isRefusal(error, code)) return { error }
  let codes = reports.get(listener)
  if (!codes) reports.set(listener, codes = new Map<string, LastReport>())
  const now = performance.now()
  const last = codes.get(code)
  if (last !== undefined && now - last.at < QUIET_MS) {
    last.more++
    return undefined
  }
  codes.set(code, { at: now, more: 0 })
  const { message } = error as Error
  const text = last === undefined || last.more === 0 ? message
    : `${message} (${last.more} more in the ${Math.round((now - last.at) / 1000)} s before)`
  const line = new HttpError(status, code, { message: text })
  line.stack = `HttpError: ${status} ${code}: ${text}`
  return { error: line }
}

/** An error with a cause is a failure, except for a full store, which names the server's error. */
function isRefusal(error: unknown, code: string): boolean {
  return code === 'store_full' || (isHttpError(error) && error.cause === undefined)
}
