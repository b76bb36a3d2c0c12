import { ownText, textBytes } from './text.js'

/** Bytes that an entry takes beside its texts, at most: test/unit/memory/heap.test.ts measures it. */
const OVERHEAD = 256

/** Stands behind every value: a concatenation that is made flat is always a fresh copy, see `ownText`. */
const END = '\n'

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
  /** The text that the map holds. */
  key: string
  /** Its neighbours among the evictable ones. */
  previous: Held | undefined = undefined
  next: Held | undefined = undefined

  constructor(key: string, value: string, revision: number, expiresAt: number, evictable: boolean) {
    this.#text = value + END
    this.revision = revision
    this.expiresAt = expiresAt
    // Counting the bytes makes the text flat.
    const size = textBytes(this.#text)
    this.bytes = OVERHEAD + textBytes(key) + size - size / this.#text.length
    this.evictable = evictable
    this.key = key
  }

  /** Becomes what `other` is, under the same key. */
  become(other: Held): void {
    this.#text = other.#text
    this.revision = other.revision
    this.expiresAt = other.expiresAt
    this.bytes = other.bytes
    this.evictable = other.evictable
  }

  /** A window on the text, which copies nothing. */
  get value(): string {
    return this.#text.slice(0, -1)
  }
}

/**
 * The entries: pinned ones, which only their writer or their expiry removes, and evictable ones, which make
 * way for any write, the one used longest ago first. One map holds both, since most tasks begin as the one and
 * end as the other, and the evictable ones are a chain in the order of use.
 */
export class Entries {
  readonly #maxEntries: number
  readonly #maxBytes: number
  readonly #onEvict: (key: string) => void
  readonly #byKey = new Map<string, Held>()
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
    if (held?.evictable === true && held !== this.#newest) {
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
   * Puts `held` at its key, in place of `before`, which is what is there now. `false`: the pinned entries leave no room
   * for it, and nothing changed, so an entry too large for the store never costs others their place.
   */
  put(held: Held, before: Held | undefined): boolean {
    const pinned = before === undefined || before.evictable ? this.#pinned : this.#pinned - 1
    const bytes = before === undefined || before.evictable ? this.#pinnedBytes : this.#pinnedBytes - before.bytes
    if (pinned >= this.#maxEntries || bytes + held.bytes > this.#maxBytes) return false

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
    if (now.evictable) this.#link(now)
    else {
      this.#pinned++
      this.#pinnedBytes += now.bytes
    }
    return true
  }

  remove(key: string): boolean {
    const held = this.#byKey.get(key)
    if (held !== undefined) this.#leave(held)
    return this.#byKey.delete(key)
  }

  /** Every entry, while others come and go. May miss some then, and visits no more than there were. */
  *each(): Generator<[string, Held]> {
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
    this.#oldest = undefined
    this.#newest = undefined
  }

  #evict(held: Held): void {
    this.#leave(held)
    this.#byKey.delete(held.key)
    this.#onEvict(held.key)
  }

  /** It counts no more. */
  #leave(held: Held): void {
    if (held.evictable) this.#unlink(held)
    else {
      this.#pinned--
      this.#pinnedBytes -= held.bytes
    }
  }

  /** Makes it the one used last. */
  #link(held: Held): void {
    held.previous = this.#newest
    if (this.#newest === undefined) this.#oldest = held
    else this.#newest.next = held
    this.#newest = held
    this.#evictableBytes += held.bytes
  }

  #unlink(held: Held): void {
    if (held.previous === undefined) this.#oldest = held.next
    else held.previous.next = held.next
    if (held.next === undefined) this.#newest = held.previous
    else held.next.previous = held.previous
    held.previous = undefined
    held.next = undefined
    this.#evictableBytes -= held.bytes
  }
}
