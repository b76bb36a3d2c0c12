import type { Store } from '../stores/store.js'
import { isVisible, type Asker } from './asker.js'
import type { TaskSnapshot } from './codec.js'
import type { Feeds } from './feed.js'
import { isFinal } from './state.js'

/** What to wait for, and for how long. */
export interface WaitOptions {
  readonly timeoutMs: number
  /** Ends the wait early. */
  readonly signal?: AbortSignal
  readonly owner?: Asker
  /** What to wait for. Default: that the task is final. */
  readonly until?: (task: TaskSnapshot) => boolean
}

/** The task when it is as it is waited for, or as it is when the time is over. `holds`: the process stays alive for it. */
export async function waitFor(feeds: Feeds, id: string, options: WaitOptions, holds = false): Promise<TaskSnapshot | undefined> {
  const { timeoutMs, signal = new AbortController().signal, owner, until = (task) => isFinal(task.state) } = options
  const deadline = performance.now() + timeoutMs
  const follower = await feeds.follow(id, holds)
  try {
    for (;;) {
      const left = deadline - performance.now()
      const over = left <= 0 || signal.aborted
      // A notice may have been lost, so the last look is a read.
      const task = await (over ? follower.now() : follower.next(left, signal))
      if (!task || !isVisible(task, owner)) return undefined
      if (over || until(task)) return task
    }
  } finally {
    follower.close()
  }
}

/** One reason for all: making one for each, with its stack, costs more than the rest of a wait. */
const LEFT = new Error('Nobody waits any more')

/**
 * Bounds how many requests wait at once, and ends them all when the server closes. What finds no
 * place is answered at once.
 */
export class Waiters {
  private readonly places = new Set<AbortController>()
  private closed = false

  constructor(readonly max: number) {}

  get size(): number {
    return this.places.size
  }

  /** A place, or `undefined`. Its signal aborts when it is left, the client goes or the server closes. */
  enter(client: AbortSignal): { readonly signal: AbortSignal; readonly leave: () => void } | undefined {
    if (this.places.size >= this.max || this.closed || client.aborted) return undefined
    const place = new AbortController()
    const leave = () => {
      this.places.delete(place)
      client.removeEventListener('abort', leave)
      place.abort(LEFT)
    }
    this.places.add(place)
    // Whoever goes gives the place back too: a stream that was never read runs no cleanup of its own.
    client.addEventListener('abort', leave, { once: true })
    return { signal: place.signal, leave }
  }

  close(): void {
    this.closed = true
    for (const place of this.places) place.abort(LEFT)
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
