import { realpath } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { httpError } from '../../src/http/errors.js'
import type { HttpRequest } from '../../src/http/exchange.js'
import { isAbsent } from './version.js'

/** Handling of symbolic links below the folder. */
export type Symlinks = 'refuse' | 'inside' | 'follow'

/**
 * Characters that no name may have: separators of any system, U+0000, and on Windows the colon of
 * drives and streams.
 */
const UNSAFE = process.platform === 'win32' ? /[/\\\0:]|[. ]$/ : /[/\\\0]/

/**
 * Returns the decoded names of a request's path below the mount path, or `undefined` if it is not
 * below it.
 *
 * @throws {HttpError} `invalid_path` (400): the percent-encoding is not valid.
 */
export function localPath({ path, mountPath }: HttpRequest): readonly string[] | undefined {
  if (!path.startsWith(`${mountPath}/`)) return undefined
  try {
    // Decodes each name by itself, because an encoded slash is part of a name, which is rejected
    // later.
    return path.slice(mountPath.length + 1).split('/').map(decodeURIComponent)
  } catch {
    throw httpError('invalid_path')
  }
}

/**
 * Returns whether the names are safe: names of folders and a file that cannot lead out of the
 * folder.
 */
export function areNames(names: readonly string[], hidden: boolean): boolean {
  return (
    names.length > 0 &&
    names.every(
      (name) =>
        name !== '' &&
        name !== '.' &&
        name !== '..' &&
        (hidden || !name.startsWith('.')) &&
        !UNSAFE.test(name),
    )
  )
}

/**
 * Resolves `names` below `root` to a real path. Returns `undefined` if there is nothing, or a link
 * that is not allowed.
 */
export async function realPlace(
  root: string,
  names: readonly string[],
  symlinks: Symlinks,
): Promise<string | undefined> {
  try {
    // Resolved for each call, because the folder may be a link that changes.
    const base = await realpath(root)
    const asked = join(base, ...names)
    const real = await realpath(asked)
    if (symlinks === 'refuse') return real === asked ? real : undefined
    if (symlinks === 'inside') {
      return real.startsWith(base.endsWith(sep) ? base : base + sep) ? real : undefined
    }
    return real
  } catch (error) {
    if (isAbsent(error)) return undefined
    throw error
  }
}
