import type { ResponseHeaders } from '../../http/exchange.js'
import { httpDate } from '../../http/fields/dates.js'
import type { TaskSnapshot } from '../record/snapshot.js'
import { isFinalStatus } from '../../engine/task.js'

/** Longest Retry-After of a task for later: it may be cancelled meanwhile. */
const LONGEST_POLL_MS = 3_600_000

/**
 * Seconds until a poll is worth it: not before the task starts, and work that has taken long will
 * take longer.
 */
export function pollAfter({ createdAt, startAt = createdAt }: TaskSnapshot): string {
  const age = Date.now() - startAt
  if (age < 0) return String(Math.ceil(Math.min(-age, LONGEST_POLL_MS) / 1000))
  return age < 10_000 ? '1' : age < 60_000 ? '2' : age < 600_000 ? '5' : '15'
}

/** Returns the strong entity tag of a task. It changes with every change that a client can see. */
export function etagOf(task: TaskSnapshot): string {
  // The state of a job changes with the time too.
  const isScheduled = task.listedAs === 'scheduled'
  return `"${String(task.createdAt)}-${String(task.version)}${isScheduled ? '-scheduled' : ''}"`
}

/** Header fields of every answer of the status resource. */
export function statusHeaders(task: TaskSnapshot): ResponseHeaders {
  const headers: ResponseHeaders = {
    'etag': etagOf(task),
    'cache-control': 'private, no-cache',
    'vary': 'Prefer, Accept, Authorization',
    'sunset': httpDate(task.expiresAt),
  }
  if (!isFinalStatus(task.state)) headers['retry-after'] = pollAfter(task)
  return headers
}
