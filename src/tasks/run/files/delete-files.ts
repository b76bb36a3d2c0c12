import type { Blobs } from '../../../stores/blobs.js'

/** Number of blobs that are deleted at the same time. */
const CONCURRENT = 8

/** Deletes blobs, if there are any. Never rejects, because they expire. */
export async function deleteFiles(
  blobs: Blobs | undefined, keys: readonly string[],
): Promise<void> {
  if (!blobs) return
  for (let at = 0; at < keys.length; at += CONCURRENT) {
    await Promise.allSettled(keys.slice(at, at + CONCURRENT).map((key) => blobs.delete(key)))
  }
}
