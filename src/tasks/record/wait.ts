import type { Store } from '../../stores/store.js'
import type { TaskSnapshot } from './codec.js'
import type { Feeds } from './feed.js'
import { isFinal } from './state.js'

/** Limits of a wait. */
export interface WaitOptions {
  /** Longest wait, in milliseconds. */
  readonly timeoutMs: number
  /** Ends the wait early. */
  readonly signal?: AbortSignal
}

/** The names of these. */
export const WAIT = { timeoutMs: 0, signal: 0 } satisfies Record<keyof WaitOptions, 0>

/** What code of this package may ask for beside that. */
export interface FollowOptions extends WaitOptions {
  /** Ends the wait. Default: when the task is final. */
  readonly until?: (task: TaskSnapshot) => boolean
  /** Which records are shown to the one who waits; another one under the same id ends the wait. */
  readonly isVisible: (task: TaskSnapshot) => boolean
}

/**
 * The task when it is as it is waited for, or as it is when the time is over. `holds`: the process
 * stays alive for it.
 */
export async function waitFor(feeds: Feeds, id: string, options: FollowOptions, holds = false): Promise<TaskSnapshot | undefined> {
  const { timeoutMs, signal = new AbortController().signal, isVisible, until = (task) => isFinal(task.state) } = options
  const deadline = performance.now() + timeoutMs
  const follower = await feeds.follow(id, holds)
  try {
    for (;;) {
      const left = deadline - performance.now()
      const over = left <= 0 || signal.aborted
      // A notice may have been lost, so the last look is a read.
      const task = await (over ? follower.now() : follower.next(left, signal))
      if (!task || !isVisible(task)) return undefined
      if (over || until(task)) return task
    }
  } finally {
    follower.close()
  }
}

/** One reason for all: making one for each, with its stack, costs more than the rest of a wait. */
const LEFT = new Error('Nobody waits any more')

/** A place of a request that waits. */
export interface WaitingPlace {
  /** Aborts when the place is left, the client disconnects or the server closes. */
  readonly signal: AbortSignal
  readonly leave: () => void
}

/**
 * Bounds how many requests wait at once, in all and of one owner, and ends them when the server
 * closes.
 */
export class Waiters {
  private readonly places = new Set<AbortController>()
  /** How many places each owner has; those without any are not in it. */
  private readonly counts = new Map<string, number>()
  private closed = false

  /** @param maxPerOwner - places that one owner may have. Default: a tenth of `max`, 10 at least */
  constructor(readonly max: number, private readonly maxPerOwner = Math.max(10, Math.ceil(max / 10))) {}

  get size(): number {
    return this.places.size
  }

  /** Whether this owner has as many places as it may have. `counted` is of `countedAs`. */
  isFullFor(counted: string): boolean {
    return (this.counts.get(counted) ?? 0) >= this.maxPerOwner
  }

  /** Takes a place; `undefined` when there is none, or the client has disconnected. */
  enter(client: AbortSignal, counted: string): WaitingPlace | undefined {
    if (this.places.size >= this.max || this.isFullFor(counted) || this.closed || client.aborted) return undefined
    const place = new AbortController()
    const leave = () => {
      if (this.places.delete(place)) this.count(counted, -1)
      client.removeEventListener('abort', leave)
      place.abort(LEFT)
    }
    this.places.add(place)
    this.count(counted, 1)
    // Whoever goes gives the place back too: a stream that was never read runs no cleanup of its
    // own.
    client.addEventListener('abort', leave, { once: true })
    return { signal: place.signal, leave }
  }

  close(): void {
    this.closed = true
    for (const place of this.places) place.abort(LEFT)
  }

  private count(counted: string, by: 1 | -1): void {
    const count = (this.counts.get(counted) ?? 0) + by
    if (count === 0) this.counts.delete(counted)
    else this.counts.set(counted, count)
  }
}

/** Whether a store can be read at all. */
export async function answers(store: Store): Promise<boolean> {
  try {
    await store.get('health')
    return true
  } catch {
    return false
  }
}
