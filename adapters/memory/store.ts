import { LinkedList, type Linked } from '../../src/runtime/collections.js'
import type { MaybePromise } from '../../src/runtime/maybe-promise.js'
import { readOptions, value, whole, type OptionTable } from '../../src/runtime/options.js'
import { WatchList } from '../../src/runtime/notices.js'
import { entryFault } from '../../src/stores/entry-fault.js'
import {
  StoreUnavailableError, type Conflict, type Counter, type Created, type Entry, type Existing,
  type Replaced, type ReplaceOptions, type Revision, type Store, type Unsubscribe,
  type WriteOptions,
} from '../../src/stores/store.js'
import { heapShare } from '../../src/runtime/shared-limit.js'
import { MAP_LIMIT } from './engine.js'
import { ExpiryScanner, walk } from './expiry-scanner.js'
import { Space, type CallerShare, type SpaceLimits } from './space.js'
import { ownText, textBytes } from './text.js'

/** Number of steps that a write to a full store searches for expired entries, about 10 µs. */
const STEPS_WHEN_FULL = 256
/** Maximum overhead of an entry in bytes. test/unit/memory/heap.test.ts measures it. */
const OVERHEAD = 256

/** Options of `MemoryStore`. */
export interface MemoryStoreOptions {
  /** Maximum number of entries, 1 to 8,000,000. Default 1,000,000. */
  readonly maxEntries?: number
  /**
   * Maximum size of all entries in bytes, keys and overhead included, as an upper estimate.
   * Default: a quarter of the heap limit, at most 256 MiB.
   */
  readonly maxBytes?: number
  /**
   * Maximum number of stored responses and finished uploads of one owner. Default: a quarter of
   * `maxEntries`.
   *
   * Beyond it, the owner's oldest are deleted.
   */
  readonly maxEntriesPerOwner?: number
  /** Maximum size of these entries in bytes. Default: a quarter of `maxBytes`. */
  readonly maxBytesPerOwner?: number
  /**
   * Maximum number of counters, 1 to 8,000,000. Default 100,000.
   *
   * A key counts once for each 256 characters.
   */
  readonly maxCounters?: number
  /** Maximum number of watches. Default 100,000. */
  readonly maxWatches?: number
  /** Clock in milliseconds, from any origin. For tests. Default: the monotonic clock. */
  readonly now?: () => number
}

const MEMORY_STORE = {
  maxEntries: whole({ min: 1, max: MAP_LIMIT, default: 1_000_000 }),
  maxBytes: whole({ min: 1, default: heapShare(4, 256) }),
  maxEntriesPerOwner: whole({ min: 1 }),
  maxBytesPerOwner: whole({ min: 1 }),
  maxCounters: whole({ min: 1, max: MAP_LIMIT, default: 100_000 }),
  maxWatches: whole({ min: 1, max: MAP_LIMIT, default: 100_000 }),
  now: value(),
} satisfies OptionTable<MemoryStoreOptions>

/**
 * Store in the memory of this process. Every method works synchronously, and returns its outcome without a
 * promise, or a rejected promise.
 *
 * If a write needs space, removes evictable entries: the least recently used one of a caller with
 * the most bytes, or at least half as many. If the other entries fill the store, the write rejects
 * with a `StoreUnavailableError` with the reason `full`. A watch beyond `maxWatches` rejects in the
 * same way. If there are too many counters, the one that was unused for longest is reset. The
 * memory of an expired entry is released within a minute.
 */
export class MemoryStore implements Store {
  readonly shared = false
  readonly #byKey = new Map<string, StoredEntry>()
  readonly #space: Space<StoredEntry>
  readonly #limits: SpaceLimits
  readonly #counters: Counters
  readonly #watches = new WatchList()
  readonly #maxWatches: number
  readonly #now: () => number
  readonly #scanner: ExpiryScanner
  /** One sequence for all keys, so that a deleted key never gets an old revision again. */
  #revision = 0
  #closed = false

  /** @throws {TypeError} An option is unknown or out of range. */
  constructor(options: MemoryStoreOptions = {}) {
    const read = readOptions('MemoryStore', options, MEMORY_STORE)
    this.#limits = read
    this.#space = new Space(read, (entry) => { this.#drop(entry) })
    this.#counters = new Counters(read.maxCounters)
    this.#maxWatches = read.maxWatches
    this.#now = read.now ?? (() => performance.now())
    this.#scanner = new ExpiryScanner(() => this.#walk())
  }

  /** Returns the numbers of entries, counters and watches, and the bytes that `maxBytes` limits. */
  usage(): { entries: number; pinned: number; bytes: number; counters: number; watches: number } {
    const { pinned, bytes } = this.#space
    const { size: counters } = this.#counters
    return { entries: this.#byKey.size, pinned, bytes, counters, watches: this.#watches.size }
  }

  get(key: string): MaybePromise<Entry | undefined> {
    if (this.#closed) return closed()
    const fault = entryFault(key)
    if (fault) return Promise.reject(fault)
    const stored = this.#live(key)
    return stored && entryOf(stored)
  }

  create(key: string, value: string, options: WriteOptions): MaybePromise<Created | Existing> {
    if (this.#closed) return closed()
    const fault = entryFault(key, value, options.caller)
    if (fault) return Promise.reject(fault)
    const there = this.#live(key)
    if (there !== undefined) return { created: false, entry: entryOf(there) }
    return this.#write(key, value, options, this.#now() + options.ttlMs)
      ?? { created: true, revision: String(this.#revision) }
  }

  replace(
    key: string, value: string, revision: Revision, options: ReplaceOptions,
  ): MaybePromise<Replaced | Conflict> {
    if (this.#closed) return closed()
    const fault = entryFault(key, value, options.caller)
    if (fault) return Promise.reject(fault)
    const there = this.#live(key)
    if (there === undefined) return { replaced: false, entry: undefined }
    if (String(there.revision) !== revision) return { replaced: false, entry: entryOf(there) }
    const { ttlMs } = options
    const expiresAt = ttlMs === undefined ? there.expiresAt : this.#now() + ttlMs
    return this.#write(key, value, options, expiresAt)
      ?? { replaced: true, revision: String(this.#revision) }
  }

  delete(key: string, revision?: Revision): MaybePromise<boolean> {
    if (this.#closed) return closed()
    const there = this.#live(key)
    if (there === undefined || (revision !== undefined && String(there.revision) !== revision)) {
      return false
    }
    this.#drop(there)
    return true
  }

  increment(key: string, by: number, { ttlMs }: { readonly ttlMs: number }): MaybePromise<Counter> {
    if (this.#closed) return closed()
    const fault = entryFault(key)
    if (fault) return Promise.reject(fault)
    if (!Number.isFinite(ttlMs)) return Promise.reject(noDuration(ttlMs))
    const counter = this.#counters.add(key, by, ttlMs, this.#now())
    if (counter instanceof Error) return Promise.reject(counter)
    this.#scanner.start()
    return counter
  }

  watch(key: string, listener: () => void): MaybePromise<Unsubscribe> {
    if (this.#closed) return closed()
    if (this.#watches.size >= this.#maxWatches) {
      return Promise.reject(full('There are too many watches'))
    }
    return this.#watches.add(ownText(key), listener)
  }

  /** Removes everything. Every later call except `close` rejects with a `StoreUnavailableError`. */
  async close(): Promise<void> {
    this.#closed = true
    this.#scanner.stop()
    this.#watches.clear()
    for (const entry of this.#byKey.values()) this.#space.remove(entry)
    this.#byKey.clear()
    this.#counters.clear()
  }

  /** Returns the entry at `key`. Counts as a use. */
  #live(key: string): StoredEntry | undefined {
    const entry = this.#byKey.get(key)
    if (entry === undefined || this.#isDropped(entry)) return undefined
    const free = entry.share?.free
    if (free && entry !== free.last) {
      free.remove(entry)
      free.push(entry)
    }
    return entry
  }

  /** Writes an entry. Returns a rejected promise if nothing was written. */
  #write(
    key: string, value: string, options: ReplaceOptions, expiresAt: number,
  ): Promise<never> | undefined {
    if (!Number.isFinite(expiresAt)) return Promise.reject(noDuration(options.ttlMs))
    let before = this.#byKey.get(key)
    if (expiresAt > this.#now()) {
      const ownKey = before?.key ?? ownText(key)
      const entry = new StoredEntry(ownKey, value, this.#revision + 1, expiresAt)
      if (!this.#hasRoom(entry, before)) {
        this.#scanner.advance(STEPS_WHEN_FULL)
        before = this.#byKey.get(key)
        if (!this.#hasRoom(entry, before)) return Promise.reject(full('The store is full'))
      }
      if (before) this.#space.remove(before)
      this.#space.makeSpace(1, entry.bytes)
      this.#byKey.set(entry.key, entry)
      if (options.evictable) this.#space.release(entry, options.caller)
      else this.#space.pin(entry)
      this.#watches.notify(key)
    } else if (before) this.#drop(before)
    this.#revision++
    this.#scanner.start()
    return undefined
  }

  /** Returns `false` if pinned entries leave too little space. */
  #hasRoom({ bytes }: StoredEntry, before: StoredEntry | undefined): boolean {
    const { pinned, pinnedBytes } = this.#space
    const isRepinned = before !== undefined && before.share === undefined
    return pinned + (isRepinned ? 0 : 1) <= this.#limits.maxEntries
      && pinnedBytes + bytes - (isRepinned ? before.bytes : 0) <= this.#limits.maxBytes
  }

  /** Removes an entry if it has expired. */
  #isDropped(entry: StoredEntry): boolean {
    if (entry.expiresAt > this.#now()) return false
    this.#drop(entry)
    return true
  }

  #drop(entry: StoredEntry): void {
    this.#byKey.delete(entry.key)
    this.#space.remove(entry)
    this.#watches.notify(entry.key)
  }

  /** Visits everything that can expire. */
  *#walk(): Generator<boolean> {
    yield* walk(this.#byKey, (entry) => this.#isDropped(entry))
    yield* this.#counters.sweep(this.#now)
  }
}

class StoredEntry implements Linked<StoredEntry> {
  readonly value: string
  /** Bytes that count towards `maxBytes`. */
  readonly bytes: number
  share: CallerShare<StoredEntry> | undefined = undefined
  previous: StoredEntry | undefined = undefined
  next: StoredEntry | undefined = undefined

  /** @param revision - as a number, which needs no separate memory */
  constructor(
    readonly key: string, value: string, readonly revision: number, readonly expiresAt: number,
  ) {
    this.value = ownText(value)
    this.bytes = OVERHEAD + textBytes(key) + textBytes(value)
  }
}

function entryOf(stored: StoredEntry): Entry {
  return { value: stored.value, revision: String(stored.revision) }
}

function noDuration(ttlMs: unknown): TypeError {
  return new TypeError(`ttlMs must be a number of milliseconds, not ${String(ttlMs)}`)
}

function full(message: string): StoreUnavailableError {
  return new StoreUnavailableError(message, { reason: 'full' })
}

function closed(): Promise<never> {
  return Promise.reject(new StoreUnavailableError('The store is closed'))
}

class Count implements Linked<Count> {
  previous: Count | undefined = undefined
  next: Count | undefined = undefined

  constructor(readonly key: string, public value: number, readonly expiresAt: number) {}
}

/** Bounds the memory of long keys. */
const weightOf = (key: string): number => 1 + (key.length >> 8)

/**
 * Counters of the store. If there are too many, the counter that was unused for longest starts
 * again at 0.
 */
export class Counters {
  readonly #byKey = new Map<string, Count>()
  /** The counter unused for longest is first. */
  readonly #byUse = new LinkedList<Count>()
  #weight = 0

  constructor(private readonly max: number) {}

  get size(): number {
    return this.#byKey.size
  }

  /** Adds `by` to a counter. Returns an error if nothing was changed. */
  add(key: string, by: number, ttlMs: number, now: number): Counter | Error {
    const count = this.#byKey.get(key)
    const isLive = count !== undefined && count.expiresAt > now
    if (!Number.isSafeInteger(by) || !Number.isSafeInteger(by + (isLive ? count.value : 0))) {
      return new TypeError('A counter and its changes must be safe integers')
    }
    if (isLive) {
      count.value += by
      this.#byUse.remove(count)
      this.#byUse.push(count)
      return { value: count.value, resetMs: count.expiresAt - now }
    }
    // It would evict others.
    if (weightOf(key) > this.max) {
      const message = 'The key of the counter is too long for this store'
      return new StoreUnavailableError(message, { reason: 'full' })
    }
    if (count) this.#delete(count)
    // A counter that has expired already is not stored.
    if (ttlMs > 0) {
      const fresh = new Count(ownText(key), by, now + ttlMs)
      this.#byKey.set(fresh.key, fresh)
      this.#byUse.push(fresh)
      this.#weight += weightOf(key)
      while (this.#weight > this.max) this.#delete(this.#byUse.first as Count)
    }
    return { value: by, resetMs: Math.max(ttlMs, 0) }
  }

  /** Yields `true` for each counter that it removed. */
  sweep(now: () => number): Generator<boolean> {
    return walk(this.#byKey, (count) => {
      if (count.expiresAt > now()) return false
      this.#delete(count)
      return true
    })
  }

  clear(): void {
    this.#byKey.clear()
    this.#byUse.clear()
    this.#weight = 0
  }

  #delete(count: Count): void {
    this.#byKey.delete(count.key)
    this.#byUse.remove(count)
    this.#weight -= weightOf(count.key)
  }
}
