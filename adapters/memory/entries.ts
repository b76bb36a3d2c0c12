import { Recency } from './recency.js'
import { ownText, textBytes } from './text.js'

/** Bytes that an entry takes beside its texts, at most: test/unit/memory/heap.test.ts measures it. */
const OVERHEAD = 256

/** Stands behind every value: a concatenation that is made flat is always a fresh copy, see `ownText`. */
const END = '\n'

/** One entry as the store keeps it. */
export class Held {
  readonly #text: string
  /** A number takes no memory of its own here; callers see it as text. */
  readonly revision: number
  readonly expiresAt: number
  /** What it counts against `maxBytes`. */
  readonly bytes: number

  constructor(key: string, value: string, revision: number, expiresAt: number) {
    this.#text = value + END
    this.revision = revision
    this.expiresAt = expiresAt
    // Counting the bytes makes the text flat.
    const size = textBytes(this.#text)
    this.bytes = OVERHEAD + textBytes(key) + size - size / this.#text.length
  }

  /** A window on the text, which copies nothing. */
  get value(): string {
    return this.#text.slice(0, -1)
  }
}

/**
 * The entries in two rooms under one roof: pinned ones, which only their writer or their expiry
 * removes, and evictable ones, which make way for any write, the one used longest ago first.
 */
export class Entries {
  readonly #maxEntries: number
  readonly #maxBytes: number
  readonly #pinned = new Map<string, Held>()
  readonly #evictable: Recency<Held>
  #pinnedBytes = 0

  constructor(maxEntries: number, maxBytes: number, onEvict: (key: string) => void) {
    this.#maxEntries = maxEntries
    this.#maxBytes = maxBytes
    this.#evictable = new Recency(maxBytes, (held) => held.bytes, onEvict)
  }

  get size(): number {
    return this.#pinned.size + this.#evictable.size
  }

  get pinned(): number {
    return this.#pinned.size
  }

  get bytes(): number {
    return this.#pinnedBytes + this.#evictable.weight
  }

  /** The entry at `key`, expired or not. */
  find(key: string): Held | undefined {
    return this.#pinned.get(key) ?? this.#evictable.get(key)
  }

  /** `find` that does not count as a use. */
  peek(key: string): Held | undefined {
    return this.#pinned.get(key) ?? this.#evictable.peek(key)
  }

  /**
   * Puts `held` at `key` in place of what is there. `false`: the pinned entries leave no room for it,
   * and nothing changed, so an entry too large for the store never costs others their place.
   */
  put(key: string, held: Held, evictable: boolean): boolean {
    const before = this.#pinned.get(key)
    const count = this.#pinned.size - (before === undefined ? 0 : 1)
    const bytes = this.#pinnedBytes - (before === undefined ? 0 : before.bytes)
    if (count >= this.#maxEntries || bytes + held.bytes > this.#maxBytes) return false

    if (before === undefined) this.#evictable.delete(key)
    while (
      this.#evictable.size > 0 &&
      (count + this.#evictable.size >= this.#maxEntries || bytes + held.bytes + this.#evictable.weight > this.#maxBytes)
    ) this.#evictable.evict()

    if (evictable) {
      if (before !== undefined) this.#pinned.delete(key)
      this.#pinnedBytes = bytes
      this.#evictable.set(ownText(key), held)
    } else {
      this.#pinned.set(before === undefined ? ownText(key) : key, held)
      this.#pinnedBytes = bytes + held.bytes
    }
    return true
  }

  remove(key: string): boolean {
    const held = this.#pinned.get(key)
    if (held === undefined) return this.#evictable.delete(key)
    this.#pinnedBytes -= held.bytes
    return this.#pinned.delete(key)
  }

  /** Every entry, while others come and go. May miss some then, and visits no more than there were. */
  *each(): Generator<[string, Held]> {
    let left = this.#pinned.size
    for (const entry of this.#pinned) {
      if (left-- === 0) break
      yield entry
    }
    yield* this.#evictable.entries()
  }

  clear(): void {
    this.#pinned.clear()
    this.#pinnedBytes = 0
    this.#evictable.clear()
  }
}
