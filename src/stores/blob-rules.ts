import { isName, NAME_RULE } from '../runtime/names.js'
import { unlessAborted } from '../runtime/timers.js'
import type { BlobInfo, BlobLink, BlobPutOptions, BlobRange, Blobs } from './blobs.js'

export const BLOB_PUT = { ttlMs: 0, signal: 0 } satisfies Record<keyof BlobPutOptions, 0>
export const BLOB_RANGE = { start: 0, end: 0, etag: 0 } satisfies Record<keyof BlobRange, 0>
export const BLOB_LINK = { etag: 0, type: 0, disposition: 0, cacheControl: 0 } satisfies Record<keyof BlobLink, 0>

export function checkBlobKey(key: string): void {
  if (!isName(key)) throw new TypeError(`The key of a blob must be ${NAME_RULE}`)
}

export function checkBlobLifetime(ttlMs: number): void {
  if (Number.isFinite(ttlMs)) return
  throw new TypeError(`ttlMs must be a number of milliseconds, not ${String(ttlMs)}`)
}

export function blobRange(
  range: BlobRange, size: number,
): { readonly start: number; readonly end: number } {
  const { start = 0, end = size } = range
  const isWhole = Number.isInteger(start) && Number.isInteger(end)
  if (isWhole && start >= 0 && start <= end && end <= size) return { start, end }
  const given = `${String(start)} to ${String(end)}`
  throw new TypeError(`A range of a blob of ${size} bytes must lie within it; ${given} does not`)
}

/** Passes chunks to `write`. Rejects at once if `signal` aborts. */
export async function takeContent(
  content: AsyncIterable<Uint8Array>,
  signal: AbortSignal | undefined,
  write: (chunk: Uint8Array) => Promise<void> | void,
): Promise<void> {
  const iterator = content[Symbol.asyncIterator]()
  let isOver = false
  try {
    for (;;) {
      signal?.throwIfAborted()
      const step = await (signal ? unlessAborted(iterator.next(), signal) : iterator.next())
      isOver = step.done === true
      if (step.done === true) return
      if (!(step.value instanceof Uint8Array)) {
        throw new TypeError(
          `The content of a blob comes as Uint8Array, not as ${typeof step.value}`,
        )
      }
      if (step.value.byteLength > 0) await write(step.value)
    }
  } finally {
    if (!isOver) close(iterator)
  }
}

/** Does not wait, because a generator that waits for its source ends only after the source. */
function close(iterator: AsyncIterator<Uint8Array>): void {
  try {
    iterator.return?.()?.then(undefined, () => undefined)
  } catch {
    // Errors while closing are ignored.
  }
}

const CONCURRENT = 8

/** Deletes blobs. Never rejects, because they expire. */
export async function deleteBlobs(
  blobs: Blobs | undefined, keys: readonly string[],
): Promise<void> {
  if (blobs) await changeEach(keys, (key) => blobs.delete(key).catch(() => false))
}

/** Returns `undefined` for a blob that has expired. */
export function renewBlobs(
  blobs: Blobs, keys: readonly string[], ttlMs: number,
): Promise<readonly (BlobInfo | undefined)[]> {
  return changeEach(keys, (key) => blobs.renew(key, ttlMs))
}

/** Returns the sizes of blobs in bytes, 0 for one that does not exist. */
export function blobBytes(
  blobs: Pick<Blobs, 'stat'>, keys: readonly string[],
): Promise<readonly number[]> {
  return changeEach(keys, async (key) => (await blobs.stat(key))?.size ?? 0)
}

/** Calls `change` for each key, for up to eight at the same time. */
export async function changeEach<R>(
  keys: readonly string[], change: (key: string) => Promise<R>,
): Promise<readonly R[]> {
  const outcomes: R[] = []
  for (let at = 0; at < keys.length; at += CONCURRENT) {
    outcomes.push(...await Promise.all(keys.slice(at, at + CONCURRENT).map(change)))
  }
  return outcomes
}
