import type { Evictable } from '../../src/stores/store.js'
import { ownText, textBytes } from './text.js'

/**
 * Bytes that an entry takes beside its texts, at most: test/unit/memory/heap.test.ts measures it.
 */
const OVERHEAD = 256

/**
 * Stands behind every value: a concatenation that is made flat is always a fresh copy, see
 * `ownText`.
 */
const END = '\n'

/** Bytes that an entry takes in addition when it goes with another one. */
const FOLLOWER_OVERHEAD = 256

/**
 * What may happen to an entry: `pinned` stays until it expires, `free` may be evicted, `bound` is
 * evictable, but only after the entry that it goes with.
 */
type Eviction = 'pinned' | 'free' | 'bound'

/** One entry as the store keeps it. */
export class StoredEntry {
  #text: string
  /** A number takes no memory of its own here; callers see it as text. */
  revision: number
  expiresAt: number
  /** What it counts against `maxBytes`. */
  bytes: number
  /** May go before it expires. */
  evictable: boolean
  /** The key of the entry that it goes with. */
  follows: string | undefined
  eviction: Eviction = 'pinned'
  /** The text that the map holds. */
  key: string
  /** Its neighbours among the free ones. */
  previous: StoredEntry | undefined = undefined
  next: StoredEntry | undefined = undefined

  constructor(key: string, value: string, revision: number, expiresAt: number, evictable: Evictable) {
    this.#text = value + END
    this.revision = revision
    this.expiresAt = expiresAt
    // Counting the bytes makes the text flat.
    const size = textBytes(this.#text)
    this.bytes = OVERHEAD + textBytes(key) + size - size / this.#text.length
    this.evictable = evictable !== false
    this.follows = typeof evictable === 'object' ? ownText(evictable.with) : undefined
    if (this.follows !== undefined) this.bytes += FOLLOWER_OVERHEAD + textBytes(this.follows)
    this.key = key
  }

  /** Becomes what `other` is, under the same key. */
  become(other: StoredEntry): void {
    this.#text = other.#text
    this.revision = other.revision
    this.expiresAt = other.expiresAt
    this.bytes = other.bytes
    this.evictable = other.evictable
    this.follows = other.follows
  }

  /** A window on the text, which copies nothing. */
  get value(): string {
    return this.#text.slice(0, -1)
  }
}

/**
 * The entries: pinned ones, which only their writer or their expiry removes, and evictable ones,
 * which make way for any write, the one used longest ago first. One map holds both, since most
 * tasks begin as the one and end as the other. The free ones are a chain in the order of use. One
 * that goes with another entry is pinned as long as that is, is bound to it while that is
 * evictable, and becomes free when that has gone.
 */
export class Entries {
  readonly #maxEntries: number
  readonly #maxBytes: number
  readonly #onEvict: (key: string) => void
  readonly #byKey = new Map<string, StoredEntry>()
  /** Entries that go with the one at a key, whether that is there or not. */
  readonly #followers = new Map<string, Set<StoredEntry>>()
  #pinned = 0
  #pinnedBytes = 0
  #evictableBytes = 0
  /** The ends of the chain. */
  #oldest: StoredEntry | undefined
  #newest: StoredEntry | undefined

  constructor(maxEntries: number, maxBytes: number, onEvict: (key: string) => void) {
    this.#maxEntries = maxEntries
    this.#maxBytes = maxBytes
    this.#onEvict = onEvict
  }

  get size(): number {
    return this.#byKey.size
  }

  get pinned(): number {
    return this.#pinned
  }

  get bytes(): number {
    return this.#pinnedBytes + this.#evictableBytes
  }

  /** The entry at `key`, expired or not. */
  find(key: string): StoredEntry | undefined {
    const stored = this.#byKey.get(key)
    if (stored?.eviction === 'free' && stored !== this.#newest) {
      this.#unlink(stored)
      this.#link(stored)
    }
    return stored
  }

  /** `find` that does not count as a use. */
  peek(key: string): StoredEntry | undefined {
    return this.#byKey.get(key)
  }

  /**
   * Puts `stored` at its key, in place of `before`, which is what is there now. `false`: the entries
   * that have to stay leave no room for it, and nothing changed, so an entry too large for the
   * store never costs others their place.
   */
  put(stored: StoredEntry, before: StoredEntry | undefined): boolean {
    if (!this.#hasRoom(stored, before)) return false
    let others = this.#byKey.size
    if (before !== undefined) {
      others--
      this.#leave(before)
    }
    while (this.#oldest !== undefined && (others >= this.#maxEntries || this.bytes + stored.bytes > this.#maxBytes)) {
      others--
      this.#evict(this.#oldest)
    }

    let now = stored
    if (before === undefined) {
      stored.key = ownText(stored.key)
      this.#byKey.set(stored.key, stored)
    } else {
      // The map need not hear of it.
      before.become(stored)
      now = before
    }
    this.#enter(now)
    return true
  }

  remove(key: string): boolean {
    const stored = this.#byKey.get(key)
    if (stored === undefined) return false
    this.#leave(stored)
    this.#byKey.delete(key)
    this.#review(key)
    return true
  }

  /**
   * Every entry, while others come and go. May miss some then, and visits no more than there were.
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
    this.#followers.clear()
    this.#pinned = 0
    this.#pinnedBytes = 0
    this.#evictableBytes = 0
    this.#oldest = undefined
    this.#newest = undefined
  }

  /**
   * Whether what has to stay leaves room. Those that go with an entry that is replaced stay with
   * it.
   */
  #hasRoom(stored: StoredEntry, before: StoredEntry | undefined): boolean {
    let count = this.#pinned + 1
    let bytes = this.#pinnedBytes + stored.bytes
    const leaving = before === undefined ? [] : [before]
    const staying = before === undefined ? [] : [...this.#followers.get(stored.key) ?? []].filter((each) => each !== before)
    for (const each of [...leaving, ...staying]) {
      if (each.eviction !== 'pinned') continue
      count--
      bytes -= each.bytes
    }
    for (const each of staying) bytes += each.bytes
    return count + staying.length <= this.#maxEntries && bytes <= this.#maxBytes
  }

  #evict(stored: StoredEntry): void {
    this.remove(stored.key)
    this.#onEvict(stored.key)
  }

  /** It is there, with its final members. */
  #enter(stored: StoredEntry): void {
    const { follows } = stored
    if (follows !== undefined) {
      const others = this.#followers.get(follows)
      if (others === undefined) this.#followers.set(follows, new Set([stored]))
      else others.add(stored)
    }
    this.#count(stored)
    this.#review(stored.key)
  }

  /** It counts no more. */
  #leave(stored: StoredEntry): void {
    const { follows } = stored
    if (follows !== undefined) {
      const others = this.#followers.get(follows)
      if (others?.delete(stored) && others.size === 0) this.#followers.delete(follows)
    }
    this.#uncount(stored)
  }

  /** The entry at `key` came, changed or went: those that go with it may stand otherwise now. */
  #review(key: string): void {
    if (this.#followers.size === 0) return
    for (const each of this.#followers.get(key) ?? []) {
      if (this.#evictionOf(each) === each.eviction) continue
      this.#uncount(each)
      this.#count(each)
    }
  }

  #evictionOf(stored: StoredEntry): Eviction {
    if (!stored.evictable) return 'pinned'
    const leader = stored.follows === undefined ? undefined : this.#byKey.get(stored.follows)
    // One that goes with another itself holds nothing: so there are no circles.
    if (leader === undefined || leader.follows !== undefined) return 'free'
    return leader.evictable ? 'bound' : 'pinned'
  }

  #count(stored: StoredEntry): void {
    stored.eviction = this.#evictionOf(stored)
    if (stored.eviction === 'pinned') {
      this.#pinned++
      this.#pinnedBytes += stored.bytes
    } else this.#evictableBytes += stored.bytes
    if (stored.eviction === 'free') this.#link(stored)
  }

  #uncount(stored: StoredEntry): void {
    if (stored.eviction === 'pinned') {
      this.#pinned--
      this.#pinnedBytes -= stored.bytes
    } else this.#evictableBytes -= stored.bytes
    if (stored.eviction === 'free') this.#unlink(stored)
  }

  /** Makes it the one used last. */
  #link(stored: StoredEntry): void {
    stored.previous = this.#newest
    if (this.#newest === undefined) this.#oldest = stored
    else this.#newest.next = stored
    this.#newest = stored
  }

  #unlink(stored: StoredEntry): void {
    if (stored.previous === undefined) this.#oldest = stored.next
    else stored.previous.next = stored.next
    if (stored.next === undefined) this.#newest = stored.previous
    else stored.next.previous = stored.previous
    stored.previous = undefined
    stored.next = undefined
  }
}
