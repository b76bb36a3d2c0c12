import { createHash } from 'node:crypto'
import type { BigIntStats } from 'node:fs'
import { lstat, stat } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'

/**
 * Clocks of file systems tick every few milliseconds. A change in the same tick as the one before
 * leaves all times as they are, so a file that changed only just now is looked at again when that
 * tick is over.
 */
const TICK_MS = 20

/** Errors that say: for you there is nothing here. */
const ABSENT = new Set(['ENOENT', 'ENOTDIR', 'ENAMETOOLONG', 'ELOOP', 'EACCES', 'EPERM', 'EINVAL'])

/**
 * Whether an error of the file system means that there is no such file, or none that this process
 * may read.
 */
export function isAbsent(error: unknown): boolean {
  return ABSENT.has((error as NodeJS.ErrnoException | null)?.code ?? '')
}

/** What is known of one version of a file; `undefined` when there is no such regular file. */
export async function versionOf(path: string, links: 'follow' | 'refuse'): Promise<BigIntStats | undefined> {
  const look = (): Promise<BigIntStats> => (links === 'follow' ? stat : lstat)(path, { bigint: true })
  try {
    let stats = await look()
    const age = Date.now() - Number(stats.ctimeMs)
    if (age >= 0 && age < TICK_MS) {
      await pause(TICK_MS - age)
      stats = await look()
    }
    // A pipe or a device could keep whoever opens it waiting for ever.
    return stats.isFile() ? stats : undefined
  } catch (error) {
    if (isAbsent(error)) return undefined
    throw error
  }
}

/** Whether two looks saw the same version of the same file. */
export function isSameVersion(a: BigIntStats, b: BigIntStats): boolean {
  return a.ino === b.ino && a.dev === b.dev && a.ctimeNs === b.ctimeNs && hasSameContent(a, b)
}

/**
 * Whether an open file still has the bytes that it had. Its ctime changes also when it loses its
 * name to a newer one.
 */
export function hasSameContent(a: BigIntStats, b: BigIntStats): boolean {
  return a.size === b.size && a.mtimeNs === b.mtimeNs
}

/** A strong entity tag. Hashed, since the number of an inode is nobody's business. */
export function etagOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  const hash = createHash('sha256').update(`${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`).digest('base64url')
  return `"${hash.slice(0, 22)}"`
}
