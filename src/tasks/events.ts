import type { Store } from '../stores/store.js'
import { toSnapshot, type TaskSnapshot } from './codec.js'
import { taskKey } from './ledger.js'
import { isFinal } from './state.js'
import { Follower } from './wait.js'

/** A seat among the waiters. */
interface Place {
  readonly signal: AbortSignal
  readonly leave: () => void
}

const HEARTBEAT_MS = 15_000
const RETRY_MS = 2000

/**
 * The server-sent events of one task: its face at once (unless `lastEventId` has it) and after every
 * change, with the version as the id; a comment as a heartbeat; an end after the final state.
 */
export function taskEvents(
  store: Store, task: TaskSnapshot, toText: (task: TaskSnapshot) => string, lastEventId: string | undefined, place: Place,
  see: (task: TaskSnapshot) => void = () => undefined,
): AsyncIterable<string> {
  const events = follow(store, task, toText, lastEventId, place, see)
  return {
    [Symbol.asyncIterator]: () => ({
      next: () => events.next(),
      // A generator that has not begun runs no `finally`, and one that waits hears of this too late.
      return: () => {
        place.leave()
        return events.return()
      },
    }),
  }
}

async function* follow(
  store: Store, task: TaskSnapshot, toText: (task: TaskSnapshot) => string, lastEventId: string | undefined, { signal, leave }: Place,
  see: (task: TaskSnapshot) => void,
): AsyncGenerator<string, void, undefined> {
  let seen = lastEventId
  let follower: Follower | undefined
  try {
    yield `retry: ${String(RETRY_MS)}\n\n`
    follower = await Follower.open(store, taskKey(task.id))
    let spoken = Date.now()
    while (!signal.aborted) {
      const entry = await follower.next(HEARTBEAT_MS, signal)
      if (!entry) return
      const now = toSnapshot(task.id, entry.value)
      see(now)
      const id = eventId(now)
      if (id !== seen) {
        seen = id
        spoken = Date.now()
        yield `id: ${id}\ndata: ${toText(now)}\n\n`
      }
      if (isFinal(now.state)) return
      if (Date.now() - spoken >= HEARTBEAT_MS) {
        spoken = Date.now()
        yield ': still here\n\n'
      }
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
