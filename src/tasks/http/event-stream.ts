import type { TaskSnapshot } from '../record/codec.js'
import type { Feeds, Follower } from '../record/feed.js'
import { isFinal } from '../record/state.js'

/** A seat among the waiters. */
interface Place {
  readonly signal: AbortSignal
  readonly leave: () => void
}

const HEARTBEAT_MS = 15_000
const RETRY_MS = 2000
/**
 * A connection gets its next piece when it has taken the last one, so this much of an event waits
 * in it at the most.
 */
const PIECE_BYTES = 65_536

/**
 * The server-sent events of one task: its face at once (unless `lastEventId` has it) and after
 * every change, with the version as the id; a comment as a heartbeat; an end after the final state.
 * A slow reader skips what has changed again meanwhile.
 *
 * @param eventOf - the bytes of the event for a version, shared by all streams
 */
export function taskEvents(
  feeds: Feeds, task: TaskSnapshot, eventOf: (task: TaskSnapshot) => Uint8Array, lastEventId: string | undefined, place: Place,
): AsyncIterable<string | Uint8Array> {
  const events = follow(feeds, task, eventOf, lastEventId, place)
  return {
    [Symbol.asyncIterator]: () => ({
      next: () => events.next(),
      // A generator that has not begun runs no `finally`, and one that waits hears of this too
      // late.
      return: () => {
        place.leave()
        return events.return()
      },
    }),
  }
}

async function* follow(
  feeds: Feeds, { id, owner }: TaskSnapshot, eventOf: (task: TaskSnapshot) => Uint8Array, lastEventId: string | undefined,
  { signal, leave }: Place,
): AsyncGenerator<string | Uint8Array, void, undefined> {
  let seen = lastEventId
  let follower: Follower | undefined
  try {
    yield `retry: ${String(RETRY_MS)}\n\n`
    follower = await feeds.follow(id)
    for (let first = true; !signal.aborted; first = false) {
      const now = await follower.next(HEARTBEAT_MS, signal)
      // An id that is used again may be somebody else's task.
      if (now?.owner !== owner || !now) return
      const name = eventId(now)
      if (name !== seen) {
        seen = name
        const event = eventOf(now)
        for (let at = 0; at < event.byteLength; at += PIECE_BYTES) yield event.subarray(at, at + PIECE_BYTES)
      } else if (!first) yield ': still here\n\n'
      if (isFinal(now.state)) return
    }
  } finally {
    follower?.close()
    leave()
  }
}

/** Names one state of a task; a client that reconnects sends it back as Last-Event-ID. */
export function eventId(task: TaskSnapshot): string {
  return `${String(task.createdAt)}-${String(task.version)}`
}
