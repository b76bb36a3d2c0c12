import type { FileShare } from '../../src/engine/task.js'
import { LinkedList, type Linked } from '../../src/runtime/collections.js'
import { ownText, textBytes } from './text.js'

/** Memory of a share in bytes, without its name. */
const OVERHEAD = 384
/** Number of size classes: powers of two from 1 KiB. */
const CLASSES = 33

export interface SpaceLimits {
  readonly maxEntries: number
  readonly maxBytes: number
  /** Default: a quarter of `maxEntries`. */
  readonly maxEntriesPerOwner?: number | undefined
  /** Default: a quarter of `maxBytes`. */
  readonly maxBytesPerOwner?: number | undefined
}

interface Entry<E extends Entry<E>> extends Linked<E> {
  readonly bytes: number
  readonly files?: FileShare | undefined
  /** Share of the caller that counts the entry while the entry is evictable. */
  share: CallerShare<E> | undefined
}

/** The evictable entries of one caller, or those without a caller. */
export class CallerShare<E extends Entry<E>> implements Linked<CallerShare<E>> {
  /** The entries, the least recently used first. */
  readonly free = new LinkedList<E>()
  bytes = 0
  fileBytes = 0
  /** Class of `bytes`, or -1 while nothing counts. */
  size = -1
  previous: CallerShare<E> | undefined = undefined
  next: CallerShare<E> | undefined = undefined

  constructor(readonly caller: string | undefined) {}

  /** Memory of the share itself in bytes. */
  get ownBytes(): number {
    return this.caller === undefined ? 0 : OVERHEAD + textBytes(this.caller)
  }
}

/**
 * Counts entries, which are pinned or evictable. Above the limits, removes evictable entries: the
 * oldest of the caller with most bytes. A caller above the limits of one caller loses its own entries.
 */
export class Space<E extends Entry<E>> {
  pinned = 0
  pinnedBytes = 0
  #evictable = 0
  /** Bytes of the evictable entries and memory of the shares themselves. */
  #evictableBytes = 0
  readonly #byCaller = new Map<string, CallerShare<E>>()
  readonly #uncounted = new CallerShare<E>(undefined)
  /** All shares by size, so that the largest one is found at once. */
  readonly #bySize = Array.from({ length: CLASSES }, () => new LinkedList<CallerShare<E>>())
  readonly #limits: { readonly [P in keyof SpaceLimits]-?: number }

  constructor(limits: SpaceLimits, private readonly evict: (entry: E) => void) {
    const { maxEntries, maxBytes } = limits
    const { maxEntriesPerOwner = Math.ceil(maxEntries / 4) } = limits
    const { maxBytesPerOwner = Math.ceil(maxBytes / 4) } = limits
    this.#limits = { maxEntries, maxBytes, maxEntriesPerOwner, maxBytesPerOwner }
  }

  get bytes(): number {
    return this.pinnedBytes + this.#evictableBytes
  }

  pin(entry: E): void {
    this.pinned++
    this.pinnedBytes += entry.bytes
  }

  /** Adds an evictable entry. Removes older ones of its caller. */
  release(entry: E, caller: string | undefined): void {
    const share = entry.share = caller === undefined ? this.#uncounted
      : this.#byCaller.get(caller) ?? new CallerShare<E>(ownText(caller))
    if (share.free.size === 0 && share.caller !== undefined) {
      this.#byCaller.set(share.caller, share)
      this.#evictableBytes += share.ownBytes
    }
    share.free.push(entry)
    this.#count(share, 1, entry)
    for (let old = this.#surplus(share, entry); old; old = this.#surplus(share, entry)) this.evict(old)
  }

  /** Removes an entry. A share without entries takes no memory. */
  remove(entry: E): void {
    const { share } = entry
    if (share === undefined) {
      this.pinned--
      this.pinnedBytes -= entry.bytes
      return
    }
    entry.share = undefined
    share.free.remove(entry)
    this.#count(share, -1, entry)
    if (share.free.size > 0 || share.caller === undefined) return
    this.#byCaller.delete(share.caller)
    this.#evictableBytes -= share.ownBytes
  }

  /** Evicts until there is space for more entries and bytes, or the next entry would be `kept`. */
  makeSpace(entries: number, bytes: number, kept?: E): void {
    const { maxEntries, maxBytes } = this.#limits
    while (this.pinned + this.#evictable + entries > maxEntries || this.bytes + bytes > maxBytes) {
      const oldest = this.#oldestOfLargest()
      if (oldest === undefined || oldest === kept) return
      this.evict(oldest)
    }
  }

  /** Returns the entry that a caller above its limits loses next, never `kept`. */
  #surplus({ caller, free, bytes, fileBytes }: CallerShare<E>, kept: E): E | undefined {
    const { maxEntriesPerOwner, maxBytesPerOwner } = this.#limits
    if (caller === undefined || free.first === kept) return undefined
    if (free.size > maxEntriesPerOwner || bytes > maxBytesPerOwner) return free.first
    if (fileBytes <= (kept.files?.max ?? Infinity)) return undefined
    for (const entry of free) if (entry !== kept && (entry.files?.bytes ?? 0) > 0) return entry
    return undefined
  }

  #oldestOfLargest(): E | undefined {
    for (let size = CLASSES - 1; size >= 0; size--) {
      const entry = this.#bySize[size]?.first?.free.first
      if (entry) return entry
    }
    return undefined
  }

  #count(share: CallerShare<E>, sign: 1 | -1, { bytes, files }: E): void {
    this.#evictable += sign
    this.#evictableBytes += sign * bytes
    share.bytes += sign * bytes
    share.fileBytes += sign * (files?.bytes ?? 0)
    const size = share.free.size === 0 ? -1 : 32 - Math.clz32(share.bytes / 1024)
    if (size === share.size) return
    this.#bySize[share.size]?.remove(share)
    share.size = size
    this.#bySize[size]?.push(share)
  }
}
