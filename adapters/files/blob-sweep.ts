import { randomBytes } from 'node:crypto'
import { link, readdir, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { blobHeader } from './blob-file.js'
import type { BlobHeader } from './blob-header.js'
import { countedBytes, countedBytesOf } from './folder-space.js'

/** Age in milliseconds after which an incomplete file is removed, because its writer has died. */
const ABANDONED_MS = 24 * 3_600_000

/**
 * Time in milliseconds for which an expired blob stays. A renewal that began before the expiry is
 * complete by then, so that no reader misses the file while `removeExpired` looks at it.
 */
const SLACK_MS = 1000

export const PARTIAL = '.partial'

/** Returns a new name for a file that is not a complete blob. */
export function partialName(): string {
  return `${randomBytes(16).toString('hex')}${PARTIAL}`
}

/**
 * Removes expired blobs from a folder, one file at a time. Calls `stopped` before each file. `now`
 * is the time by the folder's clock.
 *
 * @param isReserved - true for files that do not count, because their bytes are known already
 * @returns the bytes that the remaining files count
 */
export async function sweepFolder(
  folder: string,
  now: number,
  stopped: () => boolean,
  isReserved: (name: string) => boolean,
): Promise<number> {
  let bytes = 0
  for (const name of await readdir(folder)) {
    if (stopped()) break
    const path = join(folder, name)
    if (name.endsWith('.blob')) {
      const header = await blobHeader(path)
      if (isSwept(header, now)) await removeExpired(folder, path, now)
      bytes += await countedBytesOf(path)
    } else if (name.endsWith(PARTIAL)) {
      const stats = await stat(path).catch(() => undefined)
      if (stats === undefined) continue
      if (stats.mtimeMs < now - ABANDONED_MS) await rm(path, { force: true })
      else if (!isReserved(name)) bytes += countedBytes(stats.size)
    }
  }
  return bytes
}

function isSwept(header: BlobHeader | undefined, now: number): boolean {
  return header !== undefined && header.expiresAt <= now - SLACK_MS
}

/**
 * Renames the file first, because another process may have written a new blob under its name, or
 * renewed this one. A blob that has not expired gets its name back, unless a newer one has it.
 */
async function removeExpired(folder: string, path: string, now: number): Promise<void> {
  const aside = join(folder, partialName())
  try {
    await rename(path, aside)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    throw error
  }
  const header = await blobHeader(aside)
  if (header !== undefined && !isSwept(header, now)) await link(aside, path).catch(() => undefined)
  await rm(aside, { force: true })
}
