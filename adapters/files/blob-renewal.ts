import { stat } from 'node:fs/promises'
import type { BlobInfo } from '../../src/stores/blobs.js'
import { openBlob, writeAll, type OpenBlob } from './blob-file.js'
import { expiryPatch } from './blob-header.js'
import type { FolderClock } from './folder-clock.js'

/** Number of attempts to renew a blob that others replace at the same time. */
const MAX_TRIES = 5

/**
 * Makes the blob in a file live for at least `ttlMs` from now. Returns `undefined` if there is no
 * such blob or it has expired.
 *
 * A sweep takes the name from a file first and then reads its expiry. A renewal writes the expiry
 * first and then looks whether the file still has its name. So a file that has its name after the
 * write is not removed by any sweep.
 */
export async function renewFile(
  path: string, ttlMs: number, clock: Pick<FolderClock, 'now'>,
): Promise<BlobInfo | undefined> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const blob = await openBlob(path, 'r+')
    if (blob === undefined) return undefined
    try {
      const now = await clock.now()
      if (blob.expiresAt <= now) return undefined
      if (blob.expiresAt < now + ttlMs) await writeExpiry(blob, now + ttlMs)
      const named = await fileNow(path)
      if (named === undefined) return undefined
      // Otherwise another process has replaced the blob meanwhile.
      if (named === (await blob.handle.stat({ bigint: true })).ino) return blob.info
    } finally {
      await blob.handle.close()
    }
  }
  throw new Error('The blob was replaced each time that it was renewed')
}

/** Eight bytes that lie within one sector, so a crash leaves the old expiry or the new one. */
async function writeExpiry({ handle }: OpenBlob, expiresAt: number): Promise<void> {
  const { bytes, position } = expiryPatch(expiresAt)
  await writeAll(handle, bytes, position)
}

/** Returns the number of the file that has a name now; `undefined` if none has it. */
async function fileNow(path: string): Promise<bigint | undefined> {
  try {
    return (await stat(path, { bigint: true })).ino
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
