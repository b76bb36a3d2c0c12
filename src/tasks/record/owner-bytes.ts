import { createHash } from 'node:crypto'
import { httpError } from '../../http/errors.js'
import { changeEach } from '../../stores/blob-rules.js'
import type { Blobs } from '../../stores/blobs.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import type { Store } from '../../stores/store.js'
import { StoredRecord, UNCHANGED, type RecordKind } from '../../stores/stored-record.js'

/**
 * Reserved bytes and their lifetime, by key in the store or the blobs. The bytes of a body that is
 * arriving count until `arrivesBy`, in milliseconds since 1970, because its blob does not exist
 * yet.
 */
type Reserved = Map<string, readonly [bytes: number, ttlMs: number, arrivesBy?: number]>

/** Changes a list. Returns `false` if the list is unchanged. */
type Edit = (list: Reserved) => MaybePromise<unknown>

export interface ReserveLimits {
  readonly maxBytes: number
  /** Maximum number of unfinished uploads of the caller. Default: no limit. */
  readonly maxUploads?: number
  /** Minimum number of bytes to reserve. Default: all. */
  readonly least?: number
  readonly ttlMs: number
  /**
   * Maximum time until the body has arrived and `set` is called, in milliseconds. Default: the blob
   * or upload with the key exists already.
   */
  readonly arrivalMs?: number
}

/** Compare-and-sets that may fail in a row. */
const TRIES = 50
/** Size of a list from which each change checks the two oldest entries. */
const CHECKED_FROM = 8
const UPLOAD = 'upload:'

const RESERVED: RecordKind<Reserved> = {
  options: (list) => ({ ttlMs: Math.max(...[...list.values()].map(([, ttlMs]) => ttlMs)) }),
  encode: (list) => JSON.stringify([...list]),
  decode: (text) => new Map(JSON.parse(text) as []),
}

/**
 * There is one object for each store, because all endpoints that use a store share its limits and
 * the order of changes.
 */
const ofStores = new WeakMap<Store, OwnerBytes>()

/** Lists the bodies of each caller that wait in the blobs, in one entry of the store. */
export class OwnerBytes {
  /** The last change of each list in this process, for which the next one waits. */
  private readonly changes = new Map<string, Promise<unknown>>()
  private readonly blobs = new Set<Pick<Blobs, 'stat'>>()

  private constructor(private readonly store: Store) {}

  static of(store: Store, blobs: Pick<Blobs, 'stat'>): OwnerBytes {
    const owners = ofStores.get(store) ?? new OwnerBytes(store)
    ofStores.set(store, owners)
    owners.blobs.add(blobs)
    return owners
  }

  /** Reserves `bytes`, or at least `least`, and returns their number. */
  async reserve(caller: string, key: string, bytes: number, limits: ReserveLimits): Promise<number> {
    const { maxBytes, maxUploads = Infinity, least = bytes, ttlMs, arrivalMs } = limits
    let granted = 0
    await this.change(caller, async (list) => {
      list.delete(key)
      const isFull = uploadsOf(list) >= maxUploads || bytesOf(list) + bytes > maxBytes
      // A long list does not grow with what is gone, because each change checks its two oldest entries.
      const checked = isFull ? list.size : list.size < CHECKED_FROM ? 0 : 2
      await this.check(list, [...list.keys()].slice(0, checked))
      if (uploadsOf(list) >= maxUploads) throw refusal('too_many_uploads')
      granted = Math.min(bytes, maxBytes - bytesOf(list))
      if (granted < least) throw refusal('too_many_bytes')
      list.set(key, arrivalMs === undefined ? [granted, ttlMs] : [granted, ttlMs, Date.now() + arrivalMs])
    })
    return granted
  }

  /** Sets the bytes of a body that is kept. Never rejects. */
  async set(caller: string, key: string, bytes: number, ttlMs: number): Promise<void> {
    await this.change(caller, (list) => list.set(key, [bytes, ttlMs])).catch(() => undefined)
  }

  /** Reduces the bytes of a body from `from`, unless they have changed. Never rejects. */
  async reduce(caller: string, key: string, from: number, bytes: number): Promise<void> {
    await this.change(caller, (list) => {
      const [reserved, ttlMs = 0] = list.get(key) ?? []
      return reserved === from && list.set(key, [bytes, ttlMs])
    }).catch(() => undefined)
  }

  /** Removes a body. Never rejects: if the store fails, `reserve` removes it later. */
  async remove(caller: string, key: string): Promise<void> {
    await this.change(caller, (list) => list.delete(key)).catch(() => undefined)
  }

  private async change(caller: string, edit: Edit): Promise<void> {
    const key = `owner-bytes:${createHash('sha256').update(caller).digest('base64url')}`
    const before = this.changes.get(key) ?? Promise.resolve()
    const change = before.catch(() => undefined).then(() => this.write(key, edit))
    this.changes.set(key, change)
    return change.finally(() => {
      if (this.changes.get(key) === change) this.changes.delete(key)
    })
  }

  private write(key: string, edit: Edit): Promise<void> {
    let tries = 0
    return new StoredRecord<Reserved>(this.store, key, RESERVED).change(async (list = new Map()) => {
      if (++tries > TRIES) throw httpError('overloaded', { headers: { 'retry-after': '1' } })
      if (await edit(list) === false) return UNCHANGED
      return list.size === 0 ? undefined : list
    })
  }

  /** Removes entries whose bytes are gone. Moves the others to the end of the list. */
  private async check(list: Reserved, keys: readonly string[]): Promise<void> {
    await changeEach(keys, async (key) => {
      const entry = list.get(key)
      const [, , arrivesBy = 0] = entry ?? []
      const isKept = arrivesBy > Date.now() || await this.isKept(key)
      list.delete(key)
      if (entry && isKept) list.set(key, entry)
    })
  }

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

function uploadsOf(list: Reserved): number {
  return [...list.keys()].filter((key) => key.startsWith(UPLOAD)).length
}

function bytesOf(list: Reserved): number {
  return [...list.values()].reduce((sum, [bytes]) => sum + bytes, 0)
}

function refusal(code: 'too_many_uploads' | 'too_many_bytes'): Error {
  return httpError(code, { headers: { 'retry-after': '60' } })
}

/** Default: a quarter of `maxBytes` of the blobs; without it 64 MiB, or the largest body if that is more. */
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
