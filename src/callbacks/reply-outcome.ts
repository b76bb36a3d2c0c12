import { parseHttpDate } from '../http/fields/dates.js'
import { retryDelay } from '../queues/backoff.js'
import type { Backoff } from '../queues/queue.js'
import type { CallbackFault } from '../tasks/record/callback-state.js'
import type { CallbackReply } from './sender.js'

/** Nobody is waited for longer than this, whatever its Retry-After says. */
const MAX_WAIT_MS = 86_400_000

/** What one reply means: it is done, it never will be, or it is tried again after a while. */
export type ReplyOutcome =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'failed'; readonly fault: CallbackFault }
  | { readonly kind: 'retry'; readonly fault: CallbackFault; readonly delayMs: number }

/**
 * Judges a reply. `tried` counts the attempts of this round, with this one; `left` those that are
 * still allowed.
 */
export function classifyReply(reply: Exclude<CallbackReply, { readonly fault: 'busy' }>, { tried, left, backoff }: { tried: number; left: number; backoff: Backoff }, now: number): ReplyOutcome {
  if ('status' in reply && reply.status >= 200 && reply.status < 300) return { kind: 'delivered' }
  const fault: CallbackFault = 'fault' in reply ? reply.fault : reply.status === 410 ? 'gone' : 'status'
  // 410: the receiver wants no more. Forbidden: to ask again is to give a name the time to resolve
  // to something else.
  if (fault === 'gone' || fault === 'forbidden' || left <= 0) return { kind: 'failed', fault }
  const asked = 'status' in reply ? retryAfterMs(reply.retryAfter, now) : 0
  return { kind: 'retry', fault, delayMs: Math.max(retryDelay(backoff, tried), asked) }
}

/**
 * Milliseconds that a Retry-After (RFC 9110 section 10.2.3) asks for, a day at the most; 0 for none
 * or nonsense.
 */
export function retryAfterMs(field: string | undefined, now: number): number {
  if (field === undefined) return 0
  const text = field.trim()
  const ms = /^\d{1,15}$/.test(text) ? Number(text) * 1000 : (parseHttpDate(text) ?? 0) - now
  return Math.min(Math.max(ms, 0), MAX_WAIT_MS)
}
