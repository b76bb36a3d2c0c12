import { createHash } from 'node:crypto'
import type { BigIntStats } from 'node:fs'
import { lstat, stat } from 'node:fs/promises'
import { setTimeout as pause } from 'node:timers/promises'

/**
 * Clock resolution of file systems in milliseconds. Two changes within one tick have equal times,
 * so a file that has just changed is read again after the tick.
 */
const TICK_MS = 20

/** Error codes that mean that there is no readable file. */
const ABSENT = new Set(['ENOENT', 'ENOTDIR', 'ENAMETOOLONG', 'ELOOP', 'EACCES', 'EPERM', 'EINVAL'])

/**
 * Returns whether an error means that there is no such file, or none that this process may read.
 */
export function isAbsent(error: unknown): boolean {
  return ABSENT.has((error as NodeJS.ErrnoException | null)?.code ?? '')
}

/** Returns the state of a file, or `undefined` if there is no such regular file. */
export async function versionOf(
  path: string,
  links: 'follow' | 'refuse',
): Promise<BigIntStats | undefined> {
  const look = (): Promise<BigIntStats> =>
    (links === 'follow' ? stat : lstat)(path, { bigint: true })
  try {
    let stats = await look()
    const age = Date.now() - Number(stats.ctimeMs)
    if (age >= 0 && age < TICK_MS) {
      await pause(TICK_MS - age)
      stats = await look()
    }
    // Opening a pipe or a device could block forever.
    return stats.isFile() ? stats : undefined
  } catch (error) {
    if (isAbsent(error)) return undefined
    throw error
  }
}

/** Returns whether two states are of the same version of the same file. */
export function isSameVersion(a: BigIntStats, b: BigIntStats): boolean {
  return a.ino === b.ino && a.dev === b.dev && a.ctimeNs === b.ctimeNs && hasSameContent(a, b)
}

/**
 * Returns whether a file has the same content. Ignores ctime, which also changes when the file
 * loses its name to a newer one.
 */
export function hasSameContent(a: BigIntStats, b: BigIntStats): boolean {
  return a.size === b.size && a.mtimeNs === b.mtimeNs
}

/** Returns a strong entity tag. Hashed, because inode numbers are private. */
export function etagOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  const hash = createHash('sha256')
    .update(`${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`)
    .digest('base64url')
  return `"${hash.slice(0, 22)}"`
}
