import type { Entry, Store, Unsubscribe } from '../../stores/store.js'
import { toSnapshot, type TaskSnapshot } from './codec.js'
import { taskKey } from './ledger.js'

/**
 * A notice of the store may be lost, so a record that somebody follows is read again this often. In
 * milliseconds.
 */
const REREAD_MS = 3000
/** The longest that a timer of Node takes, in milliseconds. */
const MAX_TIMER = 2 ** 31 - 1

/**
 * The tasks that are followed in this process. However many requests follow one task, the store has
 * one watch for it, a change is read once, and all of them share the snapshot.
 */
export class Feeds {
  private readonly feeds = new Map<string, Feed>()

  /** `see` is called with each record that is read. */
  constructor(private readonly store: Store, private readonly see: (task: TaskSnapshot) => void) {}

  /** Number of tasks that are followed. */
  get size(): number {
    return this.feeds.size
  }

  /**
   * Follows a task from now on. The caller closes the follower.
   *
   * @param holds - whether the process stays alive while the follower waits
   */
  async follow(id: string, holds = false): Promise<Follower> {
    const feed = this.feeds.get(id) ?? this.open(id)
    const follower = new Follower(feed, holds)
    try {
      await feed.opened
    } catch (error) {
      follower.close()
      throw error
    }
    return follower
  }

  private open(id: string): Feed {
    const feed = new Feed(this.store, id, this.see, () => {
      if (this.feeds.get(id) === feed) this.feeds.delete(id)
    })
    this.feeds.set(id, feed)
    return feed
  }
}

/**
 * One task, for all who follow it: watches the record, then reads it after each notice and every
 * few seconds.
 */
class Feed {
  readonly followers = new Set<Follower>()
  /** Resolves once changes are noticed. */
  readonly opened: Promise<void>
  /** Counts what followers have to hear of: changes, and reads that failed. */
  news = 0
  private task: TaskSnapshot | undefined
  private revision: string | undefined
  /** Why the newest read failed. */
  private failure: { readonly error: unknown } | undefined
  private reading: Promise<void> | undefined
  private next: Promise<void> | undefined
  private unwatch: Unsubscribe | undefined
  private timer: ReturnType<typeof setInterval> | undefined
  private over = false

  /** `onOver` is called once nobody follows any more. */
  constructor(
    private readonly store: Store, private readonly id: string, private readonly see: (task: TaskSnapshot) => void,
    private readonly onOver: () => void,
  ) {
    this.opened = this.open()
  }

  /**
   * The record of the newest read; the same object while nothing has been written. Throws what the
   * read failed with.
   */
  get newest(): TaskSnapshot | undefined {
    if (this.failure) throw this.failure.error
    return this.task
  }

  /**
   * Reads the record. Resolves after a read that began with this call or later, whatever it came
   * to.
   */
  refresh(): Promise<void> {
    if (!this.reading) return this.reading = this.read()
    return this.next ??= this.reading.then(() => {
      this.next = undefined
      return this.refresh()
    })
  }

  leave(follower: Follower): void {
    this.followers.delete(follower)
    if (this.followers.size > 0 || this.over) return
    this.over = true
    clearInterval(this.timer)
    this.unwatch?.()
    this.onOver()
  }

  private async open(): Promise<void> {
    const noticed = (): void => { void this.refresh() }
    try {
      const unwatch = await this.store.watch(taskKey(this.id), noticed)
      if (this.over) unwatch()
      else {
        this.unwatch = unwatch
        this.timer = setInterval(noticed, REREAD_MS).unref()
      }
    } catch (error) {
      // Who comes next tries anew.
      this.onOver()
      throw error
    }
  }

  private async read(): Promise<void> {
    let isNews = true
    try {
      isNews = this.take(await this.store.get(taskKey(this.id)))
      this.failure = undefined
    } catch (error) {
      this.failure = { error }
    }
    this.reading = undefined
    if (!isNews) return
    this.news++
    for (const follower of this.followers) follower.wake()
  }

  /** `false` when this is what was read before. */
  private take(entry: Entry | undefined): boolean {
    const isNews = entry?.revision !== this.revision
    if (isNews) this.task = entry && toSnapshot(this.id, entry.value)
    this.revision = entry?.revision
    if (this.task) this.see(this.task)
    return isNews
  }
}

/** One who follows a task. It queues nothing: whoever is slow skips to the newest record. */
export class Follower {
  private seen: number | undefined
  private onWake: (() => void) | undefined
  private closed = false

  constructor(private readonly feed: Feed, private readonly holds: boolean) {
    feed.followers.add(this)
  }

  /**
   * The newest record: at once if it has changed since the last call, else once it changes, after
   * `timeoutMs`, or when the signal aborts. The first call reads it.
   */
  async next(timeoutMs: number, signal: AbortSignal): Promise<TaskSnapshot | undefined> {
    const { feed } = this
    if (this.seen === undefined) await feed.refresh()
    else if (this.seen === feed.news) await this.pause(timeoutMs, signal)
    this.seen = feed.news
    return feed.newest
  }

  /** Reads the record now, and returns it. */
  async now(): Promise<TaskSnapshot | undefined> {
    this.seen = undefined
    return this.next(0, new AbortController().signal)
  }

  wake(): void {
    this.onWake?.()
  }

  close(): void {
    if (this.closed) return
    this.closed = true
    this.feed.leave(this)
    this.wake()
  }

  private pause(ms: number, signal: AbortSignal): Promise<void> {
    if (signal.aborted || this.closed) return Promise.resolve()
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', done)
        this.onWake = undefined
        resolve()
      }
      const timer = setTimeout(done, Math.min(Math.max(ms, 0), MAX_TIMER))
      if (!this.holds) timer.unref()
      signal.addEventListener('abort', done, { once: true })
      this.onWake = done
    })
  }
}
