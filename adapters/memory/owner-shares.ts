import { LinkedList, type Linked } from '../../src/runtime/collections.js'
import { ownText, textBytes } from './text.js'

/** Memory of a share in bytes, without its name. */
const OVERHEAD = 384
/** Number of size classes: powers of two from 1 KiB. */
const CLASSES = 33

interface Entry<E> extends Linked<E> {
  readonly bytes: number
}

/** The evictable entries of one owner, or those without an owner. */
export class OwnerShare<E extends Entry<E>> implements Linked<OwnerShare<E>> {
  /** The entries, the least recently used first. */
  readonly free = new LinkedList<E>()
  /** Bytes of the entries. */
  bytes = 0
  /** Bytes that the entries have in blobs. */
  fileBytes = 0
  /** Class of `bytes`, or -1 while nothing counts. */
  size = -1
  previous: OwnerShare<E> | undefined = undefined
  next: OwnerShare<E> | undefined = undefined

  constructor(readonly owner: string | undefined) {}

  /** Memory of the share itself in bytes. */
  get ownBytes(): number {
    return this.owner === undefined ? 0 : OVERHEAD + textBytes(this.owner)
  }
}

/** The shares of all owners, by size, so that the largest one is found at once. */
export class OwnerShares<E extends Entry<E>> {
  readonly #byOwner = new Map<string, OwnerShare<E>>()
  readonly #unowned = new OwnerShare<E>(undefined)
  readonly #bySize = Array.from({ length: CLASSES }, () => new LinkedList<OwnerShare<E>>())
  /** Number of entries. */
  entries = 0
  /** Bytes of the entries and memory of the shares themselves. */
  bytes = 0

  /** Returns the share of an owner. `add` keeps it. */
  of(owner: string | undefined): OwnerShare<E> {
    if (owner === undefined) return this.#unowned
    return this.#byOwner.get(owner) ?? new OwnerShare<E>(ownText(owner))
  }

  add(share: OwnerShare<E>, entry: E): void {
    if (share.free.size === 0 && share.owner !== undefined) {
      this.#byOwner.set(share.owner, share)
      this.bytes += share.ownBytes
    }
    share.free.push(entry)
    this.#count(share, 1, entry.bytes)
  }

  /** A share without entries takes no memory. */
  remove(share: OwnerShare<E>, entry: E): void {
    share.free.remove(entry)
    this.#count(share, -1, -entry.bytes)
    if (share.free.size > 0 || share.owner === undefined) return
    this.#byOwner.delete(share.owner)
    this.bytes -= share.ownBytes
  }

  /** Returns the oldest entry of an owner that has more than its limits, but not `kept`. */
  oldestAbove(
    share: OwnerShare<E>, maxEntries: number, maxBytes: number, kept: E,
  ): E | undefined {
    const isAbove = share.free.size > maxEntries || share.bytes > maxBytes
    const { first } = share.free
    return isAbove && share.owner !== undefined && first !== kept ? first : undefined
  }

  oldestOfLargest(): E | undefined {
    for (let size = CLASSES - 1; size >= 0; size--) {
      for (let share = this.#bySize[size]?.first; share; share = share.next) {
        if (share.free.first) return share.free.first
      }
    }
    return undefined
  }

  #count(share: OwnerShare<E>, entries: number, bytes: number): void {
    this.entries += entries
    this.bytes += bytes
    share.bytes += bytes
    const size = share.free.size === 0 ? -1 : 32 - Math.clz32(share.bytes / 1024)
    if (size === share.size) return
    this.#bySize[share.size]?.remove(share)
    share.size = size
    this.#bySize[size]?.push(share)
  }
}
