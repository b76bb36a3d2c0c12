import type { Entry, Store, Unsubscribe } from '../stores/store.js'
import { isVisible, type Asker } from './asker.js'
import { toSnapshot, type TaskSnapshot } from './codec.js'
import { taskKey } from './ledger.js'
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

/** A notice may be lost, so whoever waits reads again this often. */
const REREAD_MS = 3000

/**
 * Follows one entry: watches first, then reads, then waits for a notice or a while, and reads again.
 * The caller closes it.
 */
export class Follower {
  private dirty = true
  private wake: (() => void) | undefined
  private unwatch: Unsubscribe | undefined
  private closed = false

  private constructor(private readonly store: Store, private readonly key: string, private readonly holds: boolean) {}

  /** Resolves once changes are seen. `holds`: the process does not end while this waits. */
  static async open(store: Store, key: string, holds = false): Promise<Follower> {
    const follower = new Follower(store, key, holds)
    follower.unwatch = await store.watch(key, () => {
      follower.dirty = true
      follower.wake?.()
    })
    return follower
  }

  /**
   * The entry after the next notice (at once for the first call), or when `timeoutMs` is over or the
   * signal aborts. It may be the same as before.
   */
  async next(timeoutMs: number, signal: AbortSignal): Promise<Entry | undefined> {
    if (!this.dirty) await this.pause(Math.min(timeoutMs, REREAD_MS), signal)
    this.dirty = false
    return this.store.get(this.key)
  }

  close(): void {
    if (this.closed) return
    this.closed = true
    this.unwatch?.()
    this.wake?.()
  }

  private pause(ms: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted || this.closed) return Promise.resolve()
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', done)
        this.wake = undefined
        resolve()
      }
      const timer = setTimeout(done, ms)
      if (!this.holds) timer.unref()
      signal.addEventListener('abort', done, { once: true })
      this.wake = done
    })
  }
}

/** The task when it is as it is waited for, or as it is when the time is over. `see` is told of each record that is read. */
export async function waitFor(
  store: Store, id: string, options: WaitOptions, see: (task: TaskSnapshot) => void, holds = false,
): Promise<TaskSnapshot | undefined> {
  const { timeoutMs, signal = new AbortController().signal, owner, until = (task) => isFinal(task.state) } = options
  const deadline = Date.now() + timeoutMs
  const follower = await Follower.open(store, taskKey(id), holds)
  try {
    for (;;) {
      const entry = await follower.next(deadline - Date.now(), signal)
      const task = entry && toSnapshot(id, entry.value)
      if (!task || !isVisible(task, owner)) return undefined
      see(task)
      if (until(task) || Date.now() >= deadline || signal.aborted) return task
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
