import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import type { FindContent } from '../../src/content/source.js'
import type { HttpRequest } from '../../src/http/exchange.js'
import { checkNames } from '../../src/runtime/option-names.js'
import { sourceOf, type EtagOptions } from './file-source.js'
import { areNames, localPath, realPlace, type Symlinks } from './place.js'
import { typeOfName } from './types.js'
import { versionOf } from './version.js'

/** What `folderSource` takes beside the folder. */
export interface FolderSourceOptions<C = unknown> extends EtagOptions {
  /**
   * Whether to serve what has a name, or lies in a folder with a name, that begins with a dot.
   * Default: no, it is not there.
   */
  readonly hidden?: boolean
  /**
   * Symbolic links below the folder. `refuse` (the default): what lies behind one is not there.
   * `inside`: those that end within the folder are followed. `follow`: all of them. The folder
   * itself may always be one.
   */
  readonly symlinks?: Symlinks
  /**
   * Media types by the end of a name, lower case and without the dot, that come before the known
   * ones: `{ gpx: 'application/gpx+xml' }`.
   */
  readonly types?: Readonly<Record<string, string>>
  /**
   * The path below the folder that a request is for, decoded, with `/`. Default: what follows the
   * mount path.
   */
  readonly path?: (request: HttpRequest<C>) => string | undefined
}

const KNOWN = {
  hidden: 0, symlinks: 0, types: 0, path: 0, etag: 0,
} satisfies Record<keyof FolderSourceOptions, 0>

/**
 * The files in a folder and those below it, for `content()`: `app.use('/files',
 * toNode(content(folderSource('/srv/files'))))`. Nothing outside is ever reached: not by `..`,
 * encoded or not, not by a link, nor (on Linux) by a name that is exchanged for a link while it is
 * looked at. Only regular files are there, folders have no listing. Each file is looked at anew for
 * each request; see `fileSource` about replacing them.
 *
 * @throws {TypeError} when there is no such folder
 */
export function folderSource<C = unknown>(folder: string, options: FolderSourceOptions<C> = {}): FindContent<C> {
  checkNames('folderSource', options, KNOWN)
  const root = resolve(folder)
  const { hidden = false, symlinks = 'refuse', types, path, etag } = options
  if (!['refuse', 'inside', 'follow'].includes(symlinks)) {
    throw new TypeError(`symlinks must be 'refuse', 'inside' or 'follow', not ${JSON.stringify(symlinks)}`)
  }
  if (statSync(root, { throwIfNoEntry: false })?.isDirectory() !== true) {
    throw new TypeError(`folderSource: ${root} is no folder; make it first, or name another`)
  }
  return async (request) => {
    const names = path === undefined ? localPath(request) : path(request)?.split('/')
    if (names === undefined || !areNames(names, hidden)) return undefined
    const real = await realPlace(root, names, symlinks)
    const version = real === undefined ? undefined : await versionOf(real, 'refuse')
    if (real === undefined || version === undefined) return undefined
    const name = names.at(-1) as string
    return sourceOf({ path: real, version, exact: true }, { type: typeOfName(name, types), name, etag })
  }
}
