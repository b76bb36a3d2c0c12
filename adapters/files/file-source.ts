import { basename, resolve } from 'node:path'
import type { BigIntStats } from 'node:fs'
import type { ContentSource, FindContent } from '../../src/content/source.js'
import { checkNames } from '../../src/runtime/option-names.js'
import { FileDigests, type FileDigestOptions } from './file-digests.js'
import { readFilePart, type FoundFile } from './read.js'
import { typeOfName } from './types.js'
import { etagOf, versionOf } from './version.js'

/** A file, for the `etag` option. */
export interface FileFacts {
  /** Absolute path. */
  readonly path: string
  readonly stats: BigIntStats
}

/** Options of every source of files. */
export interface FileOptions {
  /**
   * Returns the strong entity tag, with its quotes. Default: a hash of device, inode, size and
   * times to the nanosecond, which differs between machines. If several machines serve copies of
   * the same files, derive it from what the copies share, such as a stored checksum. Otherwise
   * clients that reach another machine start again.
   */
  readonly etag?: (file: FileFacts) => Promise<string> | string
  /**
   * Computes digests for clients that send `Want-Repr-Digest` (RFC 9530), and keeps them beside the
   * strong entity tag: `{}` for the default limits. Default: no digests.
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

const KNOWN = {
  type: 0, name: 0, etag: 0, digests: 0,
} satisfies Record<keyof FileSourceOptions, 0>

/**
 * Serves one file with `content()`. Follows symbolic links. Reads the state of the file for each
 * request, so the file may be replaced at any time. Replace it by renaming another file over it:
 * running downloads of the old file then complete.
 *
 * @example
 * const handler = content(fileSource('/srv/export.csv'))
 *
 * @throws {TypeError} The path is no text, or an option is unknown.
 */
export function fileSource(path: string, options: FileSourceOptions = {}): FindContent {
  checkNames('fileSource', options, KNOWN)
  const { type, name, etag } = options
  if (typeof path !== 'string') {
    throw new TypeError('fileSource: path must be a text, such as /srv/export.csv')
  }
  const digests = options.digests && new FileDigests('fileSource', options.digests)
  const absolute = resolve(path)
  return async () => {
    const version = await versionOf(absolute, 'follow')
    const file = version && { path: absolute, version, exact: false }
    return (
      file &&
      sourceOf(file, {
        type: type ?? typeOfName(absolute), name: name ?? basename(absolute), etag, digests,
      })
    )
  }
}

/** Returns the content source of a file. */
export async function sourceOf(
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
