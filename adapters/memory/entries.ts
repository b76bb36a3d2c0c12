import { type Linked } from '../../src/runtime/collections.js'
import type { ReplaceOptions } from '../../src/stores/store.js'
import { OwnerShares, type OwnerShare } from './owner-shares.js'
import { ownText, textBytes } from './text.js'

/** Maximum overhead of an entry in bytes. test/unit/memory/heap.test.ts measures it. */
const OVERHEAD = 256

export class StoredEntry implements Linked<StoredEntry> {
  readonly value: string
  /** Bytes that count towards `maxBytes`. */
  readonly bytes: number
  /** Share that counts the entry if it may be removed before it expires. */
  share: OwnerShare<StoredEntry> | undefined = undefined
  /** Neighbours in the list of evictable entries of its owner. */
  previous: StoredEntry | undefined = undefined
  next: StoredEntry | undefined = undefined

  constructor(
    public key: string,
    value: string,
    /** Kept as a number, which needs no separate memory. Callers see it as text. */
    readonly revision: number,
    readonly expiresAt: number,
  ) {
    this.value = ownText(value)
    this.bytes = OVERHEAD + textBytes(key) + textBytes(value)
  }
}

interface EntryLimits {
  readonly maxEntries: number
  readonly maxBytes: number
  /** Default: a quarter of `maxEntries`. */
  readonly maxEntriesPerOwner?: number
  /** Default: a quarter of `maxBytes`. */
  readonly maxBytesPerOwner?: number
}

/**
 * Pinned entries stay until they are deleted or expire. Evictable entries are removed when a write
 * needs space: the least recently used one of the owner that has most, and of an owner above its own
 * limit.
 */
export class Entries {
  /** Number of pinned entries. */
  pinned = 0
  readonly #byKey = new Map<string, StoredEntry>()
  #pinnedBytes = 0
  #shares = new OwnerShares<StoredEntry>()

  constructor(
    private readonly limits: EntryLimits, private readonly onEvict: (key: string) => void,
  ) {}

  get size(): number {
    return this.#byKey.size
  }

  get bytes(): number {
    return this.#pinnedBytes + this.#shares.bytes
  }

  /** Returns the entry at `key`, even if it has expired. Counts as a use. */
  find(key: string): StoredEntry | undefined {
    const entry = this.#byKey.get(key)
    const free = entry?.share?.free
    if (entry && free && entry !== free.last) {
      free.remove(entry)
      free.push(entry)
    }
    return entry
  }

  /** Returns `false` and changes nothing if pinned entries leave too little space. */
  put(entry: StoredEntry, { evictable, owner }: ReplaceOptions): boolean {
    const before = this.#byKey.get(entry.key)
    if (!this.#hasRoom(entry, before)) return false
    if (before) this.#uncount(before)
    const { maxEntries, maxBytes } = this.limits
    const added = before ? 0 : 1
    while (this.size + added > maxEntries || this.bytes + entry.bytes > maxBytes) {
      const oldest = this.#shares.oldestOfLargest()
      if (oldest === undefined) break
      this.#evict(oldest)
    }
    entry.key = before?.key ?? ownText(entry.key)
    this.#byKey.set(entry.key, entry)
    if (evictable) this.#addEvictable(entry, this.#shares.of(owner))
    else {
      this.pinned++
      this.#pinnedBytes += entry.bytes
    }
    return true
  }

  remove(key: string): void {
    const entry = this.#byKey.get(key)
    if (entry === undefined) return
    this.#uncount(entry)
    this.#byKey.delete(key)
  }

  /** Entries may be added and removed meanwhile. Visits at most as many as there were before. */
  *each(): Generator<StoredEntry> {
    let left = this.#byKey.size
    for (const entry of this.#byKey.values()) {
      if (left-- === 0) break
      yield entry
    }
  }

  clear(): void {
    this.#byKey.clear()
    this.pinned = 0
    this.#pinnedBytes = 0
    this.#shares = new OwnerShares<StoredEntry>()
  }

  #hasRoom(entry: StoredEntry, before: StoredEntry | undefined): boolean {
    const replaced = before?.share === undefined ? before : undefined
    const count = this.pinned + (replaced ? 0 : 1)
    const bytes = this.#pinnedBytes + entry.bytes - (replaced?.bytes ?? 0)
    return count <= this.limits.maxEntries && bytes <= this.limits.maxBytes
  }

  #addEvictable(entry: StoredEntry, share: OwnerShare<StoredEntry>): void {
    entry.share = share
    this.#shares.add(share, entry)
    const { maxEntries, maxBytes } = this.limits
    const { maxEntriesPerOwner = Math.ceil(maxEntries / 4) } = this.limits
    const { maxBytesPerOwner = Math.ceil(maxBytes / 4) } = this.limits
    for (;;) {
      const oldest = this.#shares.oldestAbove(share, maxEntriesPerOwner, maxBytesPerOwner, entry)
      if (oldest === undefined) return
      this.#evict(oldest)
    }
  }

  #evict({ key }: StoredEntry): void {
    this.remove(key)
    this.onEvict(key)
  }

  #uncount(entry: StoredEntry): void {
    const { share, bytes } = entry
    if (share !== undefined) return this.#shares.remove(share, entry)
    this.pinned--
    this.#pinnedBytes -= bytes
  }
}
