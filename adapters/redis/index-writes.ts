import timers from 'node:timers'
import { LISTED_STATUSES, type ListEntry, type ListedTask } from '../../src/stores/task-index.js'
import type { Script } from './scripts.js'
import { WRITE } from './task-index-scripts.js'

// Taken at once: Redis keeps real time, also under a test's fake timers, and one of those would be
// the last when they go.
const { setImmediate, setTimeout, clearTimeout } = timers

/** Maximum number of operations in one command. */
const MOST = 500
/** Time for which writes are batched that no caller waits for, in milliseconds. */
const SOON_MS = 20

/** The keys of one bucket of the index. */
export class Bucket {
  readonly checks: string
  readonly lists: string

  /** @param tag - hash tag in a Cluster */
  constructor(namespace: string, tag: string) {
    this.checks = `${namespace}:unfinished${tag}`
    this.lists = `${namespace}:tasks${tag}`
  }
}

/** Runs a script. */
export type Run = (
  script: Script, keys: string[], args: readonly (string | number)[],
) => Promise<unknown>

/** One operation of `WRITE`: a verb and its arguments. */
type Operation = readonly (string | number)[]

/** Pending change of a list. `version` decides between two. */
interface Change {
  readonly bucket: Bucket
  readonly operation: Operation
  readonly createdAt: number
  readonly version: number
}

/** Batches the writes of a `RedisTaskIndex`. */
export class IndexWrites {
  /** Pending operations by the entry of a check. */
  private checks = new Map<string, Operation>()
  /** Pending changes by the entry of a list. */
  private changes = new Map<string, Change>()
  private sent: Promise<void> | undefined
  private timer: ReturnType<typeof setTimeout> | undefined

  constructor(private readonly buckets: readonly Bucket[], private readonly run: Run) {}

  add(entry: string, afterMs: number): Promise<void> {
    this.checks.set(entry, ['add', entry, Math.ceil(afterMs)])
    return this.send()
  }

  restore(entry: string, afterMs: number): Promise<void> {
    const pending = this.checks.get(entry)
    if (pending?.[0] === 'remove') return this.add(entry, afterMs)
    if (!pending) this.checks.set(entry, ['restore', entry, Math.ceil(afterMs)])
    return this.send()
  }

  remove(entry: string): void {
    this.checks.set(entry, ['remove', entry])
    this.sendSoon()
  }

  put(task: ListedTask): Promise<void> {
    this.noteChange(task)
    return this.send()
  }

  putSoon(task: ListedTask): void {
    this.noteChange(task)
    this.sendSoon()
  }

  drop(tasks: readonly ListEntry[]): Promise<void> {
    for (const { id, owner, name, status, createdAt } of tasks) {
      const operation = ['drop', id, owner ?? '', name, LISTED_STATUSES.indexOf(status), createdAt]
      const bucket = this.bucketOf(owner ?? id)
      this.changes.set(entryKey(id, owner, name), { bucket, operation, createdAt, version: 0 })
    }
    return this.send()
  }

  /** Sends what is pending now. */
  async flush(): Promise<void> {
    if (this.checks.size === 0 && this.changes.size === 0) return
    clearTimeout(this.timer)
    this.timer = undefined
    const first = new Map<Bucket, Operation[]>()
    for (const { bucket, operation } of this.changes.values()) push(first, bucket, operation)
    const removals = this.buckets.length > 1 ? new Map<Bucket, Operation[]>() : first
    for (const [entry, operation] of this.checks) {
      push(operation[0] === 'remove' ? removals : first, this.bucketOf(entry), operation)
    }
    this.checks = new Map()
    this.changes = new Map()
    await this.write(first)
    // A check is removed only after the lists were written. Otherwise the sweep writes them.
    if (removals !== first) await this.write(removals)
  }

  /** Returns the bucket of an owner, of a task without an owner, or of a check. */
  bucketOf(text: string): Bucket {
    let hash = 0
    if (this.buckets.length > 1) {
      for (let at = 0; at < text.length; at++) hash = (hash * 31 + text.charCodeAt(at)) | 0
    }
    return this.buckets[Math.abs(hash) % this.buckets.length] as Bucket
  }

  private noteChange({ id, owner, name, status, version, createdAt, ttlMs }: ListedTask): void {
    const key = entryKey(id, owner, name)
    const pending = this.changes.get(key)
    if (pending && (pending.createdAt - createdAt || pending.version - version) > 0) return
    const number = LISTED_STATUSES.indexOf(status)
    const operation = [
      'put', id, owner ?? '', name, number, version, createdAt, Math.ceil(ttlMs),
    ]
    const bucket = this.bucketOf(owner ?? id)
    this.changes.set(key, { bucket, operation, createdAt, version })
  }

  /** Sends what is pending at the end of this turn of the event loop. */
  private send(): Promise<void> {
    this.sent ??= new Promise((resolve, reject) => {
      setImmediate(() => {
        this.sent = undefined
        this.flush().then(resolve, reject)
      })
    })
    return this.sent
  }

  private sendSoon(): void {
    this.timer ??= setTimeout(() => {
      this.flush().catch(() => undefined)
    }, SOON_MS).unref()
  }

  private async write(operations: ReadonlyMap<Bucket, readonly Operation[]>): Promise<void> {
    await Promise.all([...operations].flatMap(([{ checks, lists }, all]) => (
      chunksOf(all).map((chunk) => this.run(WRITE, [checks, lists], chunk.flat()))
    )))
  }
}

function entryKey(id: string, owner: string | undefined, name: string): string {
  return `${id}\n${name}\n${owner ?? ''}`
}

function push(map: Map<Bucket, Operation[]>, bucket: Bucket, operation: Operation): void {
  const operations = map.get(bucket)
  if (operations) operations.push(operation)
  else map.set(bucket, [operation])
}

function chunksOf(operations: readonly Operation[]): (readonly Operation[])[] {
  if (operations.length <= MOST) return [operations]
  return [operations.slice(0, MOST), ...chunksOf(operations.slice(MOST))]
}
