import { isIn, type Scope } from './details.js'
import { isFinalStatus, type StoredTask } from '../../engine/task.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import { KeyCounts } from '../../runtime/collections.js'
import { nextTurn, setGlobalTimeout } from '../../runtime/timers.js'
import { Watch, type Reading, type WaitOptions } from '../../stores/watched.js'

/** Returns whether a client can act: the task is final, or asks. Requests stop waiting then. */
export function pausesWait({ status }: StoredTask): boolean {
  return status === 'input_required' || isFinalStatus(status)
}

/** Waits until a task is final, or until `until` accepts it. Keeps the process alive. */
export async function waitFor(
  subscriptions: Subscriptions, id: string, of: Scope,
  options: WaitOptions & { readonly until?: (task: StoredTask) => boolean },
): Promise<StoredTask | undefined> {
  const { timeoutMs, signal, until = (task) => isFinalStatus(task.status) } = options
  const deadline = performance.now() + timeoutMs
  const subscription = await subscriptions.subscribe(id, true)
  try {
    for (;;) {
      const left = deadline - performance.now()
      const isOver = left <= 0 || signal?.aborted === true
      // At the end it reads the task, because a notice may have been lost.
      const task = await (isOver ? subscription.now() : subscription.next(left, signal))
      if (!task || !isIn(of, task)) return undefined
      if (isOver || until(task)) return task
    }
  } finally {
    subscription.close()
  }
}

export interface TaskSource {
  read(id: string): MaybePromise<StoredTask | undefined>
  watch(id: string, listener: () => void): MaybePromise<() => void>
}

/** Watched tasks. The subscribers of one task share a watch, its reads and its snapshots. */
export class Subscriptions {
  private readonly watches = new Map<string, TaskWatch>()

  constructor(private readonly source: TaskSource) {}

  get size(): number {
    return this.watches.size
  }

  /** @param keepAlive - true keeps the process alive while the subscriber waits */
  async subscribe(id: string, keepAlive = false): Promise<Subscription> {
    const watch = this.watches.get(id)
      ?? new TaskWatch(this.source, id, () => { this.watches.delete(id) })
    this.watches.set(id, watch)
    const subscription = new Subscription(watch, keepAlive)
    try {
      await watch.reads.opened
    } catch (error) {
      subscription.close()
      throw error
    }
    return subscription
  }
}

/**
 * For each, a write to its connection takes some 50 µs. Each writes to its connection, some 50 µs.
 */
const WOKEN_IN_A_TURN = 200

/** One watched task, and its subscribers. */
class TaskWatch {
  readonly subscribers = new Set<Subscription>()
  readonly reads: Watch<StoredTask | undefined>
  changes = 0
  private task: StoredTask | undefined
  private failure: { readonly error: unknown } | undefined
  private isWaking = false

  constructor(source: TaskSource, id: string, private readonly onClose: () => void) {
    const watched = {
      read: () => source.read(id), watch: (listener: () => void) => source.watch(id, listener),
    }
    this.reads = new Watch(watched, (reading) => { this.note(reading) })
  }

  /** The same object until the task changes. Throws the error of a read that failed. */
  get newest(): StoredTask | undefined {
    if (this.failure) throw this.failure.error
    return this.task
  }

  remove(subscriber: Subscription): void {
    if (!this.subscribers.delete(subscriber) || this.subscribers.size > 0) return
    this.reads.close()
    this.onClose()
  }

  private note(reading: Reading<StoredTask | undefined>): void {
    this.failure = 'error' in reading ? reading : undefined
    if ('value' in reading) {
      if (isSame(reading.value, this.task)) return
      this.task = reading.value
    }
    this.changes++
    void this.wakeAll()
  }

  /** Wakes the subscribers in several turns, so that other requests wait for the writes of one turn only. */
  private async wakeAll(): Promise<void> {
    if (this.isWaking) return
    this.isWaking = true
    for (let told = 0; told !== this.changes;) {
      told = this.changes
      let woken = 0
      for (const subscriber of this.subscribers) {
        if (subscriber.isBehind && subscriber.wake() && ++woken % WOKEN_IN_A_TURN === 0) await nextTurn()
      }
    }
    this.isWaking = false
  }
}

function isSame(one: StoredTask | undefined, other: StoredTask | undefined): boolean {
  return one?.version === other?.version
    && one?.createdAt === other?.createdAt && one?.expiresAt === other?.expiresAt
}

/** One subscriber of a task. A slow subscriber skips to the newest snapshot. */
export class Subscription {
  private seen: number | undefined
  private onWake: (() => void) | undefined

  constructor(private readonly watch: TaskWatch, private readonly keepAlive: boolean) {
    watch.subscribers.add(this)
  }

  /** Returns the newest snapshot once it has changed, or after `timeoutMs`. */
  async next(timeoutMs: number, signal?: AbortSignal): Promise<StoredTask | undefined> {
    if (this.seen === undefined) return this.now()
    if (!this.isBehind) await this.pause(timeoutMs, signal)
    this.seen = this.watch.changes
    return this.watch.newest
  }

  async now(): Promise<StoredTask | undefined> {
    await this.watch.reads.refresh()
    this.seen = this.watch.changes
    return this.watch.newest
  }

  /** True if the newest snapshot was not returned yet. */
  get isBehind(): boolean {
    return this.seen !== this.watch.changes
  }

  /** Ends a pause, also if the task is as it was. Returns true if there was a pause. */
  wake(): boolean {
    if (this.onWake === undefined) return false
    this.onWake()
    return true
  }

  close(): void {
    this.watch.remove(this)
    this.onWake?.()
  }

  private pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
    if (signal?.aborted) return Promise.resolve()
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', done)
        this.onWake = undefined
        resolve()
      }
      const timer = setGlobalTimeout(done, Math.max(ms, 0))
      if (!this.keepAlive) timer.unref()
      signal?.addEventListener('abort', done, { once: true })
      this.onWake = done
    })
  }
}

/** There is one error for all slots, because creating an error is slow. */
const RELEASED = new Error('The request no longer waits')

export interface WaiterSlot {
  /** Aborts when the slot is released or the client disconnects, and at `close`. */
  readonly signal: AbortSignal
  readonly release: () => void
}

/** Limits how many requests wait at once, in all and for each caller. */
export class Waiters {
  private readonly slots = new Set<AbortController>()
  private readonly perCaller = new KeyCounts()
  private closed = false

  /** @param maxPerCaller - slots of one caller. Default: a tenth of `max`, at least 10 */
  constructor(
    readonly max: number, private readonly maxPerCaller = Math.max(10, Math.ceil(max / 10)),
  ) {}

  get size(): number {
    return this.slots.size
  }

  /** @param caller - see `countedAs` */
  isFullFor(caller: string): boolean {
    return this.perCaller.get(caller) >= this.maxPerCaller
  }

  /** Returns `undefined` if no slot is free, or the client has disconnected. */
  tryAcquire(client: AbortSignal, caller: string): WaiterSlot | undefined {
    if (this.slots.size >= this.max || this.isFullFor(caller) || this.closed || client.aborted) {
      return undefined
    }
    const slot = new AbortController()
    const release = () => {
      if (this.slots.delete(slot)) this.perCaller.remove(caller)
      client.removeEventListener('abort', release)
      slot.abort(RELEASED)
    }
    this.slots.add(slot)
    this.perCaller.add(caller)
    // A stream that is never read runs no cleanup.
    client.addEventListener('abort', release, { once: true })
    return { signal: slot.signal, release }
  }

  close(): void {
    this.closed = true
    for (const slot of this.slots) slot.abort(RELEASED)
  }
}
