import { httpError } from '../../http/errors.js'
import type { HttpRequest } from '../../http/exchange.js'
import { UNBUFFERED } from '../../http/respond.js'
import { countedAs } from '../../http/requester.js'
import { isFinalStatus, type StoredTask } from '../../engine/task.js'
import type { Subscription, Subscriptions, Waiters, WaiterSlot } from '../record/subscriptions.js'
import { eventId } from './formats.js'

export const HEARTBEAT_MS = 15_000
/** Begins a stream: the time after which an EventSource connects again, in milliseconds. */
export const RETRY = 'retry: 2000\n\n'
/** Comment that a stream sends while the task does not change. */
export const HEARTBEAT = ': still here\n\n'
/** Maximum bytes of an event that wait in a connection. */
const PIECE_BYTES = 65_536

interface Events {
  /** Returns the bytes of the event for a version. */
  readonly eventOf: (task: StoredTask) => Uint8Array
  readonly lastEventId: string | undefined
}

/**
 * Returns the server-sent events of one task: the task at once, unless `lastEventId` names this
 * version, and after every change. A slow client skips versions. Releases the slot at the end.
 */
export function eventStream(
  subscriptions: Subscriptions, task: StoredTask, slot: WaiterSlot, events: Events,
): AsyncIterable<string | Uint8Array> {
  return streamOf(generate(subscriptions, task, slot, events), slot)
}

async function* generate(
  subscriptions: Subscriptions, { id, owner }: StoredTask, { signal, release }: WaiterSlot,
  { eventOf, lastEventId }: Events,
): AsyncGenerator<string | Uint8Array, void, undefined> {
  let lastSent = lastEventId
  let subscription: Subscription | undefined
  try {
    yield RETRY
    subscription = await subscriptions.subscribe(id)
    for (let first = true; !signal.aborted; first = false) {
      const now = await subscription.next(HEARTBEAT_MS, signal)
      // The id may have been deleted and used again by another owner.
      if (now?.owner !== owner || !now) return
      const version = eventId(now)
      if (version !== lastSent) {
        lastSent = version
        const event = eventOf(now)
        for (let at = 0; at < event.byteLength; at += PIECE_BYTES) yield event.subarray(at, at + PIECE_BYTES)
      } else if (!first) yield HEARTBEAT
      if (isFinalStatus(now.status)) return
    }
  } finally {
    subscription?.close()
    release()
  }
}

/** Headers of a response that depends on its moment. */
export const NOT_STORED = { 'cache-control': 'no-store', 'vary': 'Accept, Authorization' }
/** Headers of a stream. Proxies that buffer, and middleware that compresses, would hold events back. */
export const STREAM_HEADERS = { ...NOT_STORED, ...UNBUFFERED, 'cache-control': 'no-store, no-transform' }

/** Returns a slot for a stream. Throws 429 `too_many_requests` or 503 `service_unavailable`. */
export function acquireSlot(
  waiters: Waiters, request: HttpRequest<unknown>, owner: string | undefined,
): WaiterSlot {
  const caller = countedAs(request, owner)
  const slot = waiters.tryAcquire(request.signal, caller)
  if (slot) return slot
  const isOwn = waiters.isFullFor(caller)
  throw httpError(isOwn ? 'too_many_requests' : 'service_unavailable', {
    message: isOwn ? 'You wait for too many tasks at once; close an event stream, or poll instead.'
      : 'Too many event streams are open; poll instead.',
    headers: { 'retry-after': '5' },
  })
}

/** Returns the body of a stream. Releases the slot as soon as nobody reads it. */
export function streamOf(
  events: AsyncGenerator<string | Uint8Array, void, undefined>, slot: WaiterSlot,
): AsyncIterable<string | Uint8Array> {
  return {
    [Symbol.asyncIterator]: () => ({
      next: () => events.next(),
      // A generator that has not begun runs no `finally`, and one that waits runs it too late.
      return: () => {
        slot.release()
        return events.return()
      },
    }),
  }
}
