import type { TaskSnapshot } from '../record/snapshot.js'
import { isFinalStatus } from '../../engine/task.js'
import type { Subscription, Subscriptions, WaiterSlot } from '../record/subscriptions.js'
import { eventId } from './formats.js'

const HEARTBEAT_MS = 15_000
const RETRY_MS = 2000
/** Maximum bytes of an event that wait in a connection. */
const PIECE_BYTES = 65_536

/**
 * Returns the server-sent events of one task: the task at once (unless `lastEventId` names this
 * version) and after every change, with the version as the id. A comment is the heartbeat. Ends
 * after the final state. A slow client skips versions.
 *
 * @param eventOf - the bytes of the event for a version, shared by all streams
 * @param slot - released at the end of the stream
 */
export function eventStream(
  subscriptions: Subscriptions, task: TaskSnapshot, eventOf: (task: TaskSnapshot) => Uint8Array,
  lastEventId: string | undefined, slot: WaiterSlot,
): AsyncIterable<string | Uint8Array> {
  const events = generate(subscriptions, task, eventOf, lastEventId, slot)
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

async function* generate(
  subscriptions: Subscriptions, { id, owner }: TaskSnapshot,
  eventOf: (task: TaskSnapshot) => Uint8Array,
  lastEventId: string | undefined, { signal, release }: WaiterSlot,
): AsyncGenerator<string | Uint8Array, void, undefined> {
  let lastSent = lastEventId
  let subscription: Subscription | undefined
  try {
    yield `retry: ${String(RETRY_MS)}\n\n`
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
      } else if (!first) yield ': still here\n\n'
      if (isFinalStatus(now.state)) return
    }
  } finally {
    subscription?.close()
    release()
  }
}
