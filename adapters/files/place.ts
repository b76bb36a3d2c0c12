import { realpath } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { httpError } from '../../src/http/errors.js'
import type { HttpRequest } from '../../src/http/exchange.js'
import { isAbsent } from './version.js'

/** What becomes of symbolic links below the folder. */
export type Symlinks = 'refuse' | 'inside' | 'follow'

/**
 * What no name may have: separators of any system, U+0000, and on Windows the colon of drives and
 * streams.
 */
const UNSAFE = process.platform === 'win32' ? /[/\\\0:]|[. ]$/ : /[/\\\0]/

/**
 * The part of a request's path below the mount path, decoded; `undefined` when it is not below it.
 * @throws {HttpError} `invalid_path` (400) for what is no percent-encoding
 */
export function localPath({ path, mountPath }: HttpRequest): readonly string[] | undefined {
  if (!path.startsWith(`${mountPath}/`)) return undefined
  try {
    // Each name on its own: a slash that was percent-encoded is part of a name, and no name may
    // have one.
    return path.slice(mountPath.length + 1).split('/').map(decodeURIComponent)
  } catch {
    throw httpError('invalid_path')
  }
}

/** Whether these can be the names of folders and a file, and lead nowhere but down. */
export function areNames(names: readonly string[], hidden: boolean): boolean {
  return names.length > 0 && names.every((name) => (
    name !== '' && name !== '.' && name !== '..' && (hidden || !name.startsWith('.')) && !UNSAFE.test(name)
  ))
}

/**
 * The real path of what `names` lead to from `root`; `undefined` when there is nothing, or a link
 * on the way that is not let pass.
 */
export async function realPlace(root: string, names: readonly string[], symlinks: Symlinks): Promise<string | undefined> {
  try {
    // The folder itself may be a link, and lead elsewhere tomorrow.
    const base = await realpath(root)
    const asked = join(base, ...names)
    const real = await realpath(asked)
    if (symlinks === 'refuse') return real === asked ? real : undefined
    if (symlinks === 'inside') return real.startsWith(base.endsWith(sep) ? base : base + sep) ? real : undefined
    return real
  } catch (error) {
    if (isAbsent(error)) return undefined
    throw error
  }
}
