import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import type { FindContent } from '../../src/content/source.js'
import type { HttpRequest } from '../../src/http/exchange.js'
import { checkNames } from '../../src/runtime/option-names.js'
import { FileDigests } from './file-digests.js'
import { sourceOf, type FileOptions } from './file-source.js'
import { areNames, localPath, realPlace, type Symlinks } from './place.js'
import { typeOfName } from './types.js'
import { versionOf } from './version.js'

/** Options of `folderSource`. */
export interface FolderSourceOptions<C = unknown> extends FileOptions {
  /** Serves files and folders whose names begin with a dot. Default: false. */
  readonly hidden?: boolean
  /**
   * Handling of symbolic links below the folder. `refuse` (default): not served. `inside`: followed
   * if the target is in the folder. `follow`: always followed. The folder itself may be a link.
   */
  readonly symlinks?: Symlinks
  /**
   * Media types by extension, in lower case without the dot. They take precedence over the known
   * ones: `{ gpx: 'application/gpx+xml' }`.
   */
  readonly types?: Readonly<Record<string, string>>
  /**
   * Returns the decoded path below the folder, with `/`. Default: the part after the mount path.
   */
  readonly path?: (request: HttpRequest<C>) => string | undefined
}

const KNOWN = {
  hidden: 0, symlinks: 0, types: 0, path: 0, etag: 0, digests: 0,
} satisfies Record<keyof FolderSourceOptions, 0>

/**
 * Serves the files of a folder and its subfolders with `content()`. Never serves a file outside:
 * not by `..`, encoded or not, and not by a link. On Linux this includes a name that is replaced by
 * a link during the request. Serves only regular files; folders have no listing. `fileSource`
 * describes how to replace files.
 *
 * @example
 * app.use('/files', toNode(content(folderSource('/srv/files'))))
 *
 * @throws {TypeError} The folder does not exist, or an option is unknown.
 */
export function folderSource<C = unknown>(
  folder: string,
  options: FolderSourceOptions<C> = {},
): FindContent<C> {
  checkNames('folderSource', options, KNOWN)
  if (typeof folder !== 'string') {
    throw new TypeError('folderSource: folder must be a text, such as /srv/files')
  }
  const root = resolve(folder)
  const digests = options.digests && new FileDigests('folderSource', options.digests)
  const { hidden = false, symlinks = 'refuse', types, path, etag } = options
  if (!['refuse', 'inside', 'follow'].includes(symlinks)) {
    throw new TypeError(
      `folderSource: symlinks must be 'refuse', 'inside' or 'follow', not ${JSON.stringify(symlinks)}`,
    )
  }
  if (statSync(root, { throwIfNoEntry: false })?.isDirectory() !== true) {
    throw new TypeError(`folderSource: ${root} is no folder; create it first, or name another`)
  }
  return async (request) => {
    const names = path === undefined ? localPath(request) : path(request)?.split('/')
    if (names === undefined || !areNames(names, hidden)) return undefined
    const real = await realPlace(root, names, symlinks)
    const version = real === undefined ? undefined : await versionOf(real, 'refuse')
    if (real === undefined || version === undefined) return undefined
    const name = names.at(-1) as string
    return sourceOf(
      { path: real, version, exact: true },
      { type: typeOfName(name, types), name, etag, digests },
    )
  }
}
