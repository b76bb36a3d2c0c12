import type { BlobInfo, Blobs } from './blobs.js'

/** Number of blobs that are changed at the same time. */
const CONCURRENT = 8

/** Deletes blobs, if there are any. Never rejects, because they expire. */
export async function deleteBlobs(
  blobs: Blobs | undefined, keys: readonly string[],
): Promise<void> {
  if (blobs) await changeEach(keys, (key) => blobs.delete(key).catch(() => false))
}

/** Makes blobs live for at least `ttlMs` from now. Returns `undefined` for one that has expired. */
export function renewBlobs(
  blobs: Blobs, keys: readonly string[], ttlMs: number,
): Promise<readonly (BlobInfo | undefined)[]> {
  return changeEach(keys, (key) => blobs.renew(key, ttlMs))
}

/** Returns the sizes of blobs, in bytes. One that does not exist has none. */
export function blobBytes(
  blobs: Pick<Blobs, 'stat'>, keys: readonly string[],
): Promise<readonly number[]> {
  return changeEach(keys, async (key) => (await blobs.stat(key))?.size ?? 0)
}

async function changeEach<R>(
  keys: readonly string[], change: (key: string) => Promise<R>,
): Promise<readonly R[]> {
  const outcomes: R[] = []
  for (let at = 0; at < keys.length; at += CONCURRENT) {
    outcomes.push(...await Promise.all(keys.slice(at, at + CONCURRENT).map(change)))
  }
  return outcomes
}
