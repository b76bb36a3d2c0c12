import timers from 'node:timers'
import type { ListEntry, ListedTask } from './task-index.js'

// Captured at once: a server keeps real time, also under a test's fake timers.
const { setImmediate, setTimeout, clearTimeout } = timers

/** Time for which writes are batched that no caller waits for, in milliseconds. */
const SOON_MS = 20

/** Check to schedule. */
export interface Check {
  readonly entry: string
  readonly afterMs: number
}

/** Writes to a task index that are sent together. Each entry and each task occurs once. */
export interface IndexBatch {
  readonly added: readonly Check[]
  /** Checks to add if there is no such entry. */
  readonly restored: readonly Check[]
  /** Entries of checks to remove, after the tasks were written. */
  readonly removed: readonly string[]
  readonly put: readonly ListedTask[]
  readonly dropped: readonly ListEntry[]
}

type PendingCheck = { readonly verb: 'add' | 'restore', readonly afterMs: number } | { readonly verb: 'remove' }
type PendingTask =
  | { readonly isDropped: false, readonly task: ListedTask }
  | { readonly isDropped: true, readonly task: ListEntry }

/** Batches the writes of a task index on a server. */
export class IndexWrites {
  private checks = new Map<string, PendingCheck>()
  private tasks = new Map<string, PendingTask>()
  /** The callers of this turn of the event loop. */
  private waiting: Waiting | undefined
  /** Batches that are being written. */
  private readonly writing = new Set<Promise<void>>()
  private timer: ReturnType<typeof setTimeout> | undefined

  /** @param write - sends a batch. It removes checks only after the rest was written. */
  constructor(private readonly write: (batch: IndexBatch) => Promise<void>) {}

  add(entry: string, afterMs: number): Promise<void> {
    this.checks.set(entry, { verb: 'add', afterMs })
    return this.send()
  }

  restore(entry: string, afterMs: number): Promise<void> {
    const pending = this.checks.get(entry)
    if (pending?.verb === 'remove') return this.add(entry, afterMs)
    if (!pending) this.checks.set(entry, { verb: 'restore', afterMs })
    return this.send()
  }

  remove(entry: string): void {
    this.checks.set(entry, { verb: 'remove' })
    this.sendSoon()
  }

  /** Keeps a check whose removal was not sent yet. */
  keep(entry: string): void {
    if (this.checks.get(entry)?.verb === 'remove') this.checks.delete(entry)
  }

  put(task: ListedTask): Promise<void> {
    this.notePut(task)
    return this.send()
  }

  putSoon(task: ListedTask): void {
    this.notePut(task)
    this.sendSoon()
  }

  drop(tasks: readonly ListEntry[]): Promise<void> {
    for (const task of tasks) this.noteDrop(task)
    return this.send()
  }

  /** Sends what is pending now. Resolves once that and all earlier batches were written, or failed. */
  async settle(): Promise<void> {
    this.flush().catch(() => undefined)
    await Promise.allSettled(this.writing)
  }

  private flush(): Promise<void> {
    const { waiting } = this
    this.waiting = undefined
    clearTimeout(this.timer)
    this.timer = undefined
    if (this.checks.size === 0 && this.tasks.size === 0) return Promise.resolve()
    const written = this.writePending().finally(() => { this.writing.delete(written) })
    this.writing.add(written)
    waiting?.resolve(written)
    return written
  }

  private writePending(): Promise<void> {
    const added: Check[] = []
    const restored: Check[] = []
    const removed: string[] = []
    for (const [entry, check] of this.checks) {
      if (check.verb === 'add') added.push({ entry, afterMs: check.afterMs })
      else if (check.verb === 'restore') restored.push({ entry, afterMs: check.afterMs })
      else removed.push(entry)
    }
    const put: ListedTask[] = []
    const dropped: ListEntry[] = []
    for (const { isDropped, task } of this.tasks.values()) {
      if (isDropped) dropped.push(task)
      else put.push(task)
    }
    this.checks = new Map()
    this.tasks = new Map()
    return this.write({ added, restored, removed, put, dropped })
  }

  private notePut(task: ListedTask): void {
    const key = keyOf(task)
    const pending = this.tasks.get(key)
    if (pending && !pending.isDropped && isNewer(pending.task, task)) return
    this.tasks.set(key, { isDropped: false, task })
  }

  private noteDrop(task: ListEntry): void {
    const key = keyOf(task)
    const pending = this.tasks.get(key)
    // A later task of this id takes the place of the dropped one.
    if (pending && !pending.isDropped && pending.task.createdAt > task.createdAt) return
    this.tasks.set(key, { isDropped: true, task })
  }

  /** Sends what is pending at the end of this turn of the event loop. */
  private send(): Promise<void> {
    this.waiting ??= this.wait()
    return this.waiting.written
  }

  private wait(): Waiting {
    const waiting = new Waiting()
    setImmediate(() => {
      if (this.waiting === waiting) this.flush().catch(() => undefined)
    })
    return waiting
  }

  private sendSoon(): void {
    this.timer ??= setTimeout(() => {
      this.flush().catch(() => undefined)
    }, SOON_MS).unref()
  }
}

/** A batch that is not sent yet. */
class Waiting {
  declare resolve: (written: Promise<void>) => void
  readonly written = new Promise<void>((resolve) => { this.resolve = resolve })
}

/** Returns whether the first of two puts of a task replaces the second. */
export function isNewer(one: ListedTask, other: ListedTask): boolean {
  return (one.createdAt - other.createdAt || one.version - other.version) > 0
}

function keyOf({ id, owner, name }: ListEntry): string {
  return `${id}\n${name}\n${owner ?? ''}`
}
