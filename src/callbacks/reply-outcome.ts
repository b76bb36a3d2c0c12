import { parseHttpDate } from '../http/fields/dates.js'
import { retryDelay, type Backoff } from '../tasks/definition/define.js'
import type { CallbackFault } from '../tasks/record/details.js'
import type { CallbackReply } from './sender.js'

/** Maximum delay that a Retry-After can request: one day. */
const MAX_WAIT_MS = 86_400_000

/** Consequence of one reply: delivered, failed for good, or retry after a delay. */
export type ReplyOutcome =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'failed'; readonly fault: CallbackFault }
  | { readonly kind: 'retry'; readonly fault: CallbackFault; readonly delayMs: number }

/**
 * Classifies a reply. `tried` counts the attempts of this round, including this one; `left` counts
 * those that remain.
 */
export function classifyReply(
  reply: Exclude<CallbackReply, { readonly fault: 'busy' }>,
  { tried, left, backoff }: { tried: number; left: number; backoff: Backoff },
  now: number,
): ReplyOutcome {
  if ('status' in reply && reply.status >= 200 && reply.status < 300) return { kind: 'delivered' }
  const fault: CallbackFault =
    'fault' in reply ? reply.fault : reply.status === 410 ? 'gone' : 'status'
  // No retry after 410, which declines further requests. No retry for a forbidden address, which
  // would give a name time to resolve to another address.
  if (fault === 'gone' || fault === 'forbidden' || left <= 0) return { kind: 'failed', fault }
  const asked = 'status' in reply ? retryAfterMs(reply.retryAfter, now) : 0
  return { kind: 'retry', fault, delayMs: Math.max(retryDelay(backoff, tried), asked) }
}

/**
 * Returns the delay of a Retry-After (RFC 9110 section 10.2.3) in milliseconds, at most one day.
 * Returns 0 if the field is absent or not valid.
 */
export function retryAfterMs(field: string | undefined, now: number): number {
  if (field === undefined) return 0
  const text = field.trim()
  const ms = /^\d{1,15}$/.test(text) ? Number(text) * 1000 : (parseHttpDate(text) ?? 0) - now
  return Math.min(Math.max(ms, 0), MAX_WAIT_MS)
}
