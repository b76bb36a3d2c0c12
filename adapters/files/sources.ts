import * as fs from 'node:fs'
import { basename, join, resolve, sep } from 'node:path'
import { promisify } from 'node:util'
import type { ContentSource, FindContent } from '../../src/content/source.js'
import { httpError } from '../../src/http/errors.js'
import type { HttpRequest } from '../../src/http/exchange.js'
import { flag, func, oneOf, readOptions, text, value, type OptionTable } from '../../src/runtime/options.js'
import { FileDigests, type FileDigestOptions } from './file-digests.js'
import { etagOf, isAbsent, readFilePart, versionOf, type FoundFile } from './read.js'
import { typeOfName } from './types.js'

const realpath = promisify(fs.realpath.native)

/** Separators of any system, U+0000, and on Windows the colon of drives and streams. */
const UNSAFE = process.platform === 'win32' ? /[/\\\0:]|[. ]$/ : /[/\\\0]/

export type Symlinks = 'refuse' | 'inside' | 'follow'

export interface FileFacts {
  /** Absolute path. */
  readonly path: string
  readonly stats: fs.BigIntStats
}

/** Options of every source of files. */
export interface FileOptions {
  /**
   * Returns the strong entity tag, with its quotes. Default: a hash of device, inode, size and
   * times.
   *
   * If several machines serve copies of the same files, derive it from properties that the copies
   * share.
   */
  readonly etag?: (file: FileFacts) => Promise<string> | string
  /**
   * Computes digests for clients that send `Want-Repr-Digest` (RFC 9530): `{}` for the default
   * limits. Default: no digests.
   */
  readonly digests?: FileDigestOptions
}

/** Options of `fileSource`. */
export interface FileSourceOptions extends FileOptions {
  /** Media type. Default: derived from the extension. */
  readonly type?: string
  /** File name for downloads. Default: the name of the file. */
  readonly name?: string
}

const FILE_SOURCE = {
  type: text(), name: text(), etag: func(), digests: value(),
} satisfies OptionTable<FileSourceOptions>

/**
 * Serves one file with `content()`. Follows symbolic links. The file may be replaced at any time;
 * if another file is renamed over it, running downloads complete.
 * @example
 * const handler = content(fileSource('/srv/export.csv'))
 * @throws {TypeError} The path is no string, or an option is unknown.
 */
export function fileSource(path: string, options: FileSourceOptions = {}): FindContent {
  const { type, name, etag } = readOptions('fileSource', options, FILE_SOURCE)
  if (typeof path !== 'string') {
    throw new TypeError('fileSource: path must be a string, such as /srv/export.csv')
  }
  const digests = options.digests && new FileDigests('fileSource', options.digests)
  const absolute = resolve(path)
  return async () => {
    const version = await versionOf(absolute, 'follow')
    const file = version && { path: absolute, version, exact: false }
    return file && sourceOf(file, {
      type: type ?? typeOfName(absolute), name: name ?? basename(absolute), etag, digests,
    })
  }
}

/** Options of `folderSource`. */
export interface FolderSourceOptions<C = unknown> extends FileOptions {
  /** Serves files and folders whose names begin with a dot. Default: false. */
  readonly hidden?: boolean
  /**
   * Symbolic links below the folder. `refuse` (default): not served. `inside`: followed if the
   * target is in the folder. `follow`: always followed. The folder itself may be a link.
   */
  readonly symlinks?: Symlinks
  /** Additional media types by lower-case extension: `{ gpx: 'application/gpx+xml' }`. */
  readonly types?: Readonly<Record<string, string>>
  /** Returns the decoded path below the folder. Default: the part after the mount path. */
  readonly path?: (request: HttpRequest<C>) => string | undefined
}

const FOLDER_SOURCE = {
  hidden: flag({ default: false }), symlinks: oneOf(['refuse', 'inside', 'follow'], { default: 'refuse' }),
  types: value(), path: func(), etag: func(), digests: value(),
} satisfies OptionTable<FolderSourceOptions>

/**
 * Serves the files of a folder and its subfolders with `content()`, regular files only and without
 * listings. Never serves a file outside the folder: neither through `..`, encoded or not, nor
 * through a link. On Linux this includes a link that replaces a name during the request.
 * @example
 * app.use('/files', toNode(content(folderSource('/srv/files'))))
 * @throws {TypeError} The folder does not exist, or an option is unknown.
 */
export function folderSource<C = unknown>(
  folder: string, options: FolderSourceOptions<C> = {},
): FindContent<C> {
  if (typeof folder !== 'string') {
    throw new TypeError('folderSource: folder must be a string, such as /srv/files')
  }
  const { hidden, symlinks, types, path, etag } =
    readOptions('folderSource', options, FOLDER_SOURCE)
  const digests = options.digests && new FileDigests('folderSource', options.digests)
  const root = resolve(folder)
  if (fs.statSync(root, { throwIfNoEntry: false })?.isDirectory() !== true) {
    throw new TypeError(`folderSource: ${root} is no folder; create it first, or name another`)
  }
  const place = new FolderPlace(root)
  return async (request) => {
    const names = path === undefined ? localPath(request) : path(request)?.split('/')
    if (names === undefined || !areNames(names, hidden)) return undefined
    const file = await findFile(place, names, symlinks)
    if (file === undefined) return undefined
    const name = names.at(-1) as string
    return sourceOf(file, { type: typeOfName(name, types), name, etag, digests })
  }
}

async function sourceOf(
  file: FoundFile,
  { type, name, etag, digests }: {
    readonly type: string
    readonly name: string
    readonly etag: FileOptions['etag']
    readonly digests: FileDigests | undefined
  },
): Promise<ContentSource> {
  const { path, version } = file
  const tag = etag === undefined ? etagOf(version) : await etag({ path, stats: version })
  return {
    // Above 2^53 the number is not exact, and `content()` rejects it.
    size: Number(version.size),
    type,
    name,
    etag: tag,
    lastModified: Number(version.mtimeMs),
    open: (start, end) => readFilePart(file, start, end),
    ...digests && { digest: (algorithm) => digests.digestOf(file, tag, algorithm) },
  }
}

function localPath({ path, mountPath }: HttpRequest): readonly string[] | undefined {
  if (!path.startsWith(`${mountPath}/`)) return undefined
  try {
    // Decodes each name by itself, because an encoded slash is part of a name, which is rejected
    // later.
    return path.slice(mountPath.length + 1).split('/').map(decodeURIComponent)
  } catch {
    throw httpError('invalid_path')
  }
}

function areNames(names: readonly string[], hidden: boolean): boolean {
  return names.length > 0 && names.every((name) => (
    name !== '' && name !== '.' && name !== '..' && (hidden || !name.startsWith('.'))
    && !UNSAFE.test(name)
  ))
}

/** Time in milliseconds for which the real path of a folder may be used again. */
const REAL_FRESH_MS = 1000

/** The real path of a folder, which may be a link that changes. */
class FolderPlace {
  private last = ''
  private readAt = -Infinity

  constructor(readonly path: string) {}

  async real(maxAgeMs = 0): Promise<string> {
    if (performance.now() - this.readAt < maxAgeMs) return this.last
    this.last = await realpath(this.path)
    this.readAt = performance.now()
    return this.last
  }
}

/**
 * Finds the file of some names; `undefined` if there is none, or a link that is not allowed.
 */
async function findFile(
  folder: FolderPlace, names: readonly string[], symlinks: Symlinks,
): Promise<FoundFile | undefined> {
  try {
    if (symlinks === 'refuse') {
      // All at once, with a path of the folder that may be a second old: for a small file, each
      // further call takes a twentieth of the CPU time of the request.
      const asked = join(folder.path, ...names)
      const [base, real, version] = await Promise.all([
        folder.real(REAL_FRESH_MS), realpath(asked), versionOf(asked, 'refuse'),
      ])
      if (real === join(base, ...names)) return version && { path: real, version, exact: true }
      // There is a link, or the folder is a link that has changed.
    }
    const real = await realPlace(folder, names, symlinks)
    const version = real === undefined ? undefined : await versionOf(real, 'refuse')
    if (real === undefined || version === undefined) return undefined
    return { path: real, version, exact: true }
  } catch (error) {
    if (isAbsent(error)) return undefined
    throw error
  }
}

/** Resolves names to a real path; `undefined` if there is a link that is not allowed. */
async function realPlace(
  folder: FolderPlace, names: readonly string[], symlinks: Symlinks,
): Promise<string | undefined> {
  const base = await folder.real()
  const asked = join(base, ...names)
  const real = await realpath(asked)
  if (symlinks === 'refuse') return real === asked ? real : undefined
  if (symlinks === 'inside') {
    return real.startsWith(base.endsWith(sep) ? base : base + sep) ? real : undefined
  }
  return real
}
