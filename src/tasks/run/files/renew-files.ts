import type { BlobInfo, Blobs } from '../../../stores/blobs.js'

/** Number of blobs that are renewed at the same time. */
const CONCURRENT = 8

/** Makes blobs live for at least `ttlMs` from now. Returns `undefined` for one that has expired. */
export async function renewFiles(
  blobs: Blobs, keys: readonly string[], ttlMs: number,
): Promise<readonly (BlobInfo | undefined)[]> {
  const found: (BlobInfo | undefined)[] = []
  for (let at = 0; at < keys.length; at += CONCURRENT) {
    const some = keys.slice(at, at + CONCURRENT)
    found.push(...await Promise.all(some.map((key) => blobs.renew(key, ttlMs))))
  }
  return found
}
