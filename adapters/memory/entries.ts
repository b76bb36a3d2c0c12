import type { ReplaceOptions } from '../../src/stores/store.js'
import { type Linked } from '../../src/runtime/collections.js'
import { OwnerShares, type OwnerShare } from './owner-shares.js'
import { ownText, textBytes } from './text.js'

/** Maximum overhead of an entry in bytes. test/unit/memory/heap.test.ts measures it. */
const OVERHEAD = 256

/** Suffix of every stored value. Flattening a concatenation always makes a copy; see `ownText`. */
const END = '\n'

export class StoredEntry implements Linked<StoredEntry> {
  #text: string
  /** Kept as a number, which needs no separate memory. Callers see it as text. */
  revision: number
  expiresAt: number
  /** Bytes that count towards `maxBytes`. */
  bytes: number
  /** True if the entry may be removed before it expires. */
  evictable: boolean
  /** Key, as the same string object that the map has. */
  key: string
  /** Owner that the entry counts for. While the entry is evictable, the share that counts it. */
  owner: string | OwnerShare<StoredEntry> | undefined
  /** Neighbours in the list of evictable entries of its owner. */
  previous: StoredEntry | undefined = undefined
  next: StoredEntry | undefined = undefined

  constructor(
    key: string,
    value: string,
    revision: number,
    expiresAt: number,
    { evictable = false, owner }: ReplaceOptions,
  ) {
    this.#text = value + END
    this.revision = revision
    this.expiresAt = expiresAt
    // `textBytes` flattens the text.
    const size = textBytes(this.#text)
    this.bytes = OVERHEAD + textBytes(key) + size - size / this.#text.length
    this.evictable = evictable
    this.key = key
    this.owner = owner
  }

  /** Takes over value, revision, expiry and eviction options of `other`. */
  become(other: StoredEntry): void {
    this.#text = other.#text
    this.revision = other.revision
    this.expiresAt = other.expiresAt
    this.bytes = other.bytes
    this.evictable = other.evictable
    this.owner = other.owner
  }

  /** Share that counts the entry, while it is evictable. */
  get share(): OwnerShare<StoredEntry> | undefined {
    return typeof this.owner === 'object' ? this.owner : undefined
  }

  /** Returns the value without copying the text. */
  get value(): string {
    return this.#text.slice(0, -1)
  }
}

/** Limits of the entries, all and for each owner. */
export interface EntryLimits {
  readonly maxEntries: number
  readonly maxBytes: number
  readonly maxEntriesPerOwner: number
  readonly maxBytesPerOwner: number
}

/**
 * Entries of the store. Pinned entries stay until they are deleted or expire. Evictable entries are
 * removed when a write needs space: the least recently used entry of the owner that has most, and
 * that of an owner above its own limit. One map contains both kinds, because most entries begin
 * pinned and become evictable. The evictable entries of each owner form a linked list in order of use.
 */
export class Entries {
  readonly #limits: EntryLimits
  readonly #onEvict: (key: string) => void
  readonly #byKey = new Map<string, StoredEntry>()
  #pinned = 0
  #pinnedBytes = 0
  #evictableBytes = 0
  #shares = new OwnerShares<StoredEntry>()

  constructor(limits: EntryLimits, onEvict: (key: string) => void) {
    this.#limits = limits
    this.#onEvict = onEvict
  }

  get size(): number {
    return this.#byKey.size
  }

  get pinned(): number {
    return this.#pinned
  }

  get bytes(): number {
    return this.#pinnedBytes + this.#evictableBytes + this.#shares.bytes
  }

  /** Returns the entry at `key`, expired or not. Counts as a use. */
  find(key: string): StoredEntry | undefined {
    const stored = this.#byKey.get(key)
    const free = stored?.share?.free
    if (stored && free && stored !== free.last) {
      free.remove(stored)
      free.push(stored)
    }
    return stored
  }

  /** Returns the entry at `key`, expired or not. Does not count as a use. */
  peek(key: string): StoredEntry | undefined {
    return this.#byKey.get(key)
  }

  /**
   * Writes `stored` at its key, in place of `before`, the current entry. Returns `false` and
   * changes nothing if pinned entries leave too little space. An entry that is too large therefore
   * evicts nothing.
   */
  put(stored: StoredEntry, before: StoredEntry | undefined): boolean {
    if (!this.#hasRoom(stored, before)) return false
    let others = this.#byKey.size
    if (before !== undefined) {
      others--
      this.#uncount(before)
    }
    const { maxEntries, maxBytes } = this.#limits
    while (others >= maxEntries || this.bytes + stored.bytes > maxBytes) {
      const oldest = this.#shares.oldestOfLargest()
      if (oldest === undefined) break
      others--
      this.#evict(oldest)
    }

    let now = stored
    if (before === undefined) {
      stored.key = ownText(stored.key)
      this.#byKey.set(stored.key, stored)
    } else {
      // The map keeps the same object.
      before.become(stored)
      now = before
    }
    this.#count(now)
    this.#limit(now)
    return true
  }

  remove(key: string): boolean {
    const stored = this.#byKey.get(key)
    if (stored === undefined) return false
    this.#uncount(stored)
    this.#byKey.delete(key)
    return true
  }

  /**
   * Iterates over the entries. Entries may be added and removed meanwhile. May then miss some, and
   * never visits more than there were at the start.
   */
  *each(): Generator<[string, StoredEntry]> {
    let left = this.#byKey.size
    for (const entry of this.#byKey) {
      if (left-- === 0) break
      yield entry
    }
  }

  clear(): void {
    this.#byKey.clear()
    this.#pinned = 0
    this.#pinnedBytes = 0
    this.#evictableBytes = 0
    this.#shares = new OwnerShares<StoredEntry>()
  }

  #hasRoom(stored: StoredEntry, before: StoredEntry | undefined): boolean {
    const isPinned = before?.evictable === false
    const count = this.#pinned + (isPinned ? 0 : 1)
    const bytes = this.#pinnedBytes + stored.bytes - (isPinned ? before.bytes : 0)
    return count <= this.#limits.maxEntries && bytes <= this.#limits.maxBytes
  }

  #limit(stored: StoredEntry): void {
    const { share } = stored
    if (share?.owner === undefined) return
    const { maxEntriesPerOwner, maxBytesPerOwner } = this.#limits
    while (share.entries > maxEntriesPerOwner || share.bytes > maxBytesPerOwner) {
      const { first } = share.free
      if (first === undefined || first === stored) return
      this.#evict(first)
    }
  }

  #evict(stored: StoredEntry): void {
    this.remove(stored.key)
    this.#onEvict(stored.key)
  }

  #count(stored: StoredEntry): void {
    if (!stored.evictable) {
      this.#pinned++
      this.#pinnedBytes += stored.bytes
      return
    }
    this.#evictableBytes += stored.bytes
    const share = typeof stored.owner === 'object' ? stored.owner : this.#shares.of(stored.owner)
    this.#shares.add(share, stored.bytes)
    stored.owner = share
    share.free.push(stored)
  }

  #uncount(stored: StoredEntry): void {
    const { share } = stored
    if (share === undefined) {
      this.#pinned--
      this.#pinnedBytes -= stored.bytes
      return
    }
    this.#evictableBytes -= stored.bytes
    share.free.remove(stored)
    this.#shares.remove(share, stored.bytes)
    stored.owner = share.owner
  }
}
