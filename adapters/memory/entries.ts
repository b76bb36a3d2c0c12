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
type Standing = 'pinned' | 'free' | 'bound'

/** One entry as the store keeps it. */
export class Held {
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
  standing: Standing = 'pinned'
  /** The text that the map holds. */
  key: string
  /** Its neighbours among the free ones. */
  previous: Held | undefined = undefined
  next: Held | undefined = undefined

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
  become(other: Held): void {
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
  readonly #byKey = new Map<string, Held>()
  /** Entries that go with the one at a key, whether that is there or not. */
  readonly #followers = new Map<string, Set<Held>>()
  #pinned = 0
  #pinnedBytes = 0
  #evictableBytes = 0
  /** The ends of the chain. */
  #oldest: Held | undefined
  #newest: Held | undefined

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
  find(key: string): Held | undefined {
    const held = this.#byKey.get(key)
    if (held?.standing === 'free' && held !== this.#newest) {
      this.#unlink(held)
      this.#link(held)
    }
    return held
  }

  /** `find` that does not count as a use. */
  peek(key: string): Held | undefined {
    return this.#byKey.get(key)
  }

  /**
   * Puts `held` at its key, in place of `before`, which is what is there now. `false`: the entries
   * that have to stay leave no room for it, and nothing changed, so an entry too large for the
   * store never costs others their place.
   */
  put(held: Held, before: Held | undefined): boolean {
    if (!this.#hasRoom(held, before)) return false
    let others = this.#byKey.size
    if (before !== undefined) {
      others--
      this.#leave(before)
    }
    while (this.#oldest !== undefined && (others >= this.#maxEntries || this.bytes + held.bytes > this.#maxBytes)) {
      others--
      this.#evict(this.#oldest)
    }

    let now = held
    if (before === undefined) {
      held.key = ownText(held.key)
      this.#byKey.set(held.key, held)
    } else {
      // The map need not hear of it.
      before.become(held)
      now = before
    }
    this.#enter(now)
    return true
  }

  remove(key: string): boolean {
    const held = this.#byKey.get(key)
    if (held === undefined) return false
    this.#leave(held)
    this.#byKey.delete(key)
    this.#review(key)
    return true
  }

  /**
   * Every entry, while others come and go. May miss some then, and visits no more than there were.
   */
  *each(): Generator<[string, Held]> {
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
  #hasRoom(held: Held, before: Held | undefined): boolean {
    let count = this.#pinned + 1
    let bytes = this.#pinnedBytes + held.bytes
    const leaving = before === undefined ? [] : [before]
    const staying = before === undefined ? [] : [...this.#followers.get(held.key) ?? []].filter((each) => each !== before)
    for (const each of [...leaving, ...staying]) {
      if (each.standing !== 'pinned') continue
      count--
      bytes -= each.bytes
    }
    for (const each of staying) bytes += each.bytes
    return count + staying.length <= this.#maxEntries && bytes <= this.#maxBytes
  }

  #evict(held: Held): void {
    this.remove(held.key)
    this.#onEvict(held.key)
  }

  /** It is there, with its final members. */
  #enter(held: Held): void {
    const { follows } = held
    if (follows !== undefined) {
      const others = this.#followers.get(follows)
      if (others === undefined) this.#followers.set(follows, new Set([held]))
      else others.add(held)
    }
    this.#count(held)
    this.#review(held.key)
  }

  /** It counts no more. */
  #leave(held: Held): void {
    const { follows } = held
    if (follows !== undefined) {
      const others = this.#followers.get(follows)
      if (others?.delete(held) && others.size === 0) this.#followers.delete(follows)
    }
    this.#uncount(held)
  }

  /** The entry at `key` came, changed or went: those that go with it may stand otherwise now. */
  #review(key: string): void {
    if (this.#followers.size === 0) return
    for (const each of this.#followers.get(key) ?? []) {
      if (this.#standingOf(each) === each.standing) continue
      this.#uncount(each)
      this.#count(each)
    }
  }

  #standingOf(held: Held): Standing {
    if (!held.evictable) return 'pinned'
    const leader = held.follows === undefined ? undefined : this.#byKey.get(held.follows)
    // One that goes with another itself holds nothing: so there are no circles.
    if (leader === undefined || leader.follows !== undefined) return 'free'
    return leader.evictable ? 'bound' : 'pinned'
  }

  #count(held: Held): void {
    held.standing = this.#standingOf(held)
    if (held.standing === 'pinned') {
      this.#pinned++
      this.#pinnedBytes += held.bytes
    } else this.#evictableBytes += held.bytes
    if (held.standing === 'free') this.#link(held)
  }

  #uncount(held: Held): void {
    if (held.standing === 'pinned') {
      this.#pinned--
      this.#pinnedBytes -= held.bytes
    } else this.#evictableBytes -= held.bytes
    if (held.standing === 'free') this.#unlink(held)
  }

  /** Makes it the one used last. */
  #link(held: Held): void {
    held.previous = this.#newest
    if (this.#newest === undefined) this.#oldest = held
    else this.#newest.next = held
    this.#newest = held
  }

  #unlink(held: Held): void {
    if (held.previous === undefined) this.#oldest = held.next
    else held.previous.next = held.next
    if (held.next === undefined) this.#newest = held.previous
    else held.next.previous = held.previous
    held.previous = undefined
    held.next = undefined
  }
}
