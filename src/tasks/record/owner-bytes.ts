import { createHash } from 'node:crypto'
import { httpError } from '../../http/errors.js'
import type { Blobs } from '../../stores/blobs.js'
import type { Entry, Store } from '../../stores/store.js'

/** Key in the store or the blobs, reserved bytes, and the time that they may be kept. */
type Reserved = readonly [key: string, bytes: number, ttlMs: number]

/** Limits of a reservation. */
export interface ReserveLimits {
  /** Maximum number of bytes of the owner. */
  readonly maxBytes: number
  /** Maximum number of unfinished uploads of the owner. Default: no limit. */
  readonly maxUploads?: number
  /** Number of bytes that are enough. Default: all. */
  readonly least?: number
  /** Maximum time that the bytes are kept, in milliseconds. */
  readonly ttlMs: number
}

/** Compare-and-sets that may fail in a row. */
const TRIES = 50
const CONCURRENCY = 16
/** Entries of a list from which each change checks the two oldest ones. */
const CHECKED_FROM = 8
const UPLOAD = 'upload:'

const ofStores = new WeakMap<Store, OwnerBytes>()

/**
 * Lists the bodies that each owner has in the blobs before they are processed: uploads by the key
 * of their state in the store, other bodies by the key of their blob. One list in the store for
 * each owner, so all processes share it.
 */
export class OwnerBytes {
  /** The last change of each list in this process. Others wait for it, so that they do not race. */
  private readonly changes = new Map<string, Promise<unknown>>()
  private readonly blobs = new Set<Pick<Blobs, 'stat'>>()

  private constructor(private readonly store: Store) {}

  static of(store: Store, blobs: Pick<Blobs, 'stat'>): OwnerBytes {
    const owners = ofStores.get(store) ?? new OwnerBytes(store)
    ofStores.set(store, owners)
    owners.blobs.add(blobs)
    return owners
  }

  /**
   * Reserves `bytes` for a body in place of what it had. If fewer are left and `least` are enough,
   * reserves what is left. Returns the number of bytes. What is gone no longer counts.
   *
   * @throws {HttpError} 429 `too_many_uploads` or `too_many_bytes`
   */
  async reserve(
    owner: string, key: string, bytes: number, limits: ReserveLimits,
  ): Promise<number> {
    const { maxBytes, maxUploads = Infinity, least = bytes, ttlMs } = limits
    let granted = 0
    await this.change(owner, async (list) => {
      const all = list.filter(([name]) => name !== key)
      const isFull = uploadsOf(all) >= maxUploads || bytesOf(all) + bytes > maxBytes
      const others = await (isFull ? this.kept(all) : this.withoutOldest(all))
      if (uploadsOf(others) >= maxUploads) throw refusal('too_many_uploads')
      granted = Math.min(bytes, maxBytes - bytesOf(others))
      if (granted < least) throw refusal('too_many_bytes')
      return [...others, [key, granted, ttlMs]]
    })
    return granted
  }

  /** Sets the bytes of a body that is kept. Never rejects. */
  async set(owner: string, key: string, bytes: number, ttlMs: number): Promise<void> {
    await this.change(owner, (list) => [
      ...list.filter(([name]) => name !== key), [key, bytes, ttlMs],
    ]).catch(() => undefined)
  }

  /** Reduces the bytes of a body from `from`, unless they have changed. Never rejects. */
  async reduce(owner: string, key: string, from: number, bytes: number): Promise<void> {
    await this.change(owner, (list) => {
      const isSame = list.some(([name, reserved]) => name === key && reserved === from)
      return isSame
        ? list.map((each) => each[0] === key ? [key, bytes, each[2]] as const : each)
        : list
    }).catch(() => undefined)
  }

  /** Removes a body. Never rejects: if the store fails, `reserve` removes it later. */
  async remove(owner: string, key: string): Promise<void> {
    await this.change(owner, (list) => {
      const others = list.filter(([name]) => name !== key)
      return others.length === list.length ? list : others
    }).catch(() => undefined)
  }

  private async change(
    owner: string,
    next: (list: readonly Reserved[]) => readonly Reserved[] | Promise<readonly Reserved[]>,
  ): Promise<void> {
    const key = `owner-bytes:${createHash('sha256').update(owner).digest('base64url')}`
    const before = this.changes.get(key)
    const change = (before ?? Promise.resolve()).catch(() => undefined)
      .then(() => this.write(key, next))
    this.changes.set(key, change)
    try {
      await change
    } finally {
      if (this.changes.get(key) === change) this.changes.delete(key)
    }
  }

  private async write(
    key: string,
    next: (list: readonly Reserved[]) => readonly Reserved[] | Promise<readonly Reserved[]>,
  ): Promise<void> {
    const { store } = this
    for (let tried = 0; tried < TRIES; tried++) {
      const entry = await store.get(key)
      const before = listOf(entry)
      const list = await next(before)
      if (list === before) return
      const value = JSON.stringify(list)
      const ttlMs = Math.max(...list.map(([, , ttl]) => ttl))
      if (entry === undefined) {
        if (list.length === 0 || (await store.create(key, value, { ttlMs })).created) return
      } else if (list.length === 0) {
        if (await store.delete(key, entry.revision)) return
      } else if ((await store.replace(key, value, entry.revision, { ttlMs })).replaced) {
        return
      }
    }
    throw httpError('overloaded', { headers: { 'retry-after': '1' } })
  }

  /** Checks the two oldest entries of a long list, so that it does not grow with what is gone. */
  private async withoutOldest(list: readonly Reserved[]): Promise<readonly Reserved[]> {
    if (list.length < CHECKED_FROM) return list
    return [...list.slice(2), ...await this.kept(list.slice(0, 2))]
  }

  private async kept(list: readonly Reserved[]): Promise<readonly Reserved[]> {
    const kept: Reserved[] = []
    for (let at = 0; at < list.length; at += CONCURRENCY) {
      const some = list.slice(at, at + CONCURRENCY)
      const are = await Promise.all(some.map(([key]) => this.isKept(key)))
      kept.push(...some.filter((_, index) => are[index]))
    }
    return kept
  }

  /** Returns whether the bytes of an entry may still be there. */
  private async isKept(key: string): Promise<boolean> {
    if (!key.startsWith(UPLOAD)) {
      const found = await Promise.all([...this.blobs].map((blobs) => blobs.stat(key)))
      return found.some((blob) => blob !== undefined)
    }
    const entry = await this.store.get(key)
    if (entry === undefined) return false
    return (JSON.parse(entry.value) as { readonly answered?: true }).answered !== true
  }
}

function uploadsOf(list: readonly Reserved[]): number {
  return list.filter(([key]) => key.startsWith(UPLOAD)).length
}

function bytesOf(list: readonly Reserved[]): number {
  return list.reduce((sum, [, bytes]) => sum + bytes, 0)
}

function listOf(entry: Entry | undefined): readonly Reserved[] {
  return entry === undefined ? [] : JSON.parse(entry.value) as Reserved[]
}

function refusal(code: 'too_many_uploads' | 'too_many_bytes'): Error {
  return httpError(code, { headers: { 'retry-after': '60' } })
}

/**
 * Returns the bytes that one owner may have in the blobs before they are processed. Default: a
 * quarter of `maxBytes` of the blobs; without it 64 MiB, or the largest body if that is more.
 *
 * @throws {TypeError} The option is less than 1.
 */
export function ownerBytesLimit(
  where: string, option: number | undefined, blobs: Pick<Blobs, 'maxBytes'>, maxBodyBytes: number,
): number {
  const { maxBytes } = blobs
  const most = option ?? (maxBytes === undefined
    ? Math.max(64 * 2 ** 20, maxBodyBytes)
    : Math.ceil(maxBytes / 4))
  if (most >= 1) return most
  throw new TypeError(`${where}: maxBytesPerOwner must be 1 or more, not ${String(option)}`)
}
