import { basename, resolve } from 'node:path'
import type { BigIntStats } from 'node:fs'
import type { ContentSource, FindContent } from '../../src/content/source.js'
import { checkNames } from '../../src/runtime/option-names.js'
import { readFilePart, type FoundFile } from './read.js'
import { typeOfName } from './types.js'
import { etagOf, versionOf } from './version.js'

/** A file, for options that want to know it. */
export interface FileFacts {
  /** Absolute. */
  readonly path: string
  readonly stats: BigIntStats
}

/** What all sources of files take. */
export interface EtagOptions {
  /**
   * Makes the strong entity tag, with its quotes. Default: a hash of device, inode, size and times
   * to the nanosecond, which is another one on each machine. Where several machines serve copies of
   * the same files, make it of what the copies have in common, such as a checksum that was stored
   * beside them; else clients that come to another machine begin anew.
   */
  readonly etag?: (file: FileFacts) => Promise<string> | string
}

/** What `fileSource` takes beside the path. */
export interface FileSourceOptions extends EtagOptions {
  /** Media type. Default: by the end of the name. */
  readonly type?: string
  /** The name to save it under. Default: its own. */
  readonly name?: string
}

const KNOWN = { type: 0, name: 0, etag: 0 } satisfies Record<keyof FileSourceOptions, 0>

/**
 * One file for `content()`: `content(fileSource('/srv/export.csv'))`. Symbolic links are followed.
 * It is looked at anew for each request, so it may be replaced at any time, best by renaming
 * another one over it: whoever is downloading the old one then gets it to the end.
 */
export function fileSource(path: string, options: FileSourceOptions = {}): FindContent {
  checkNames('fileSource', options, KNOWN)
  const { type, name, etag } = options
  const absolute = resolve(path)
  return async () => {
    const version = await versionOf(absolute, 'follow')
    const file = version && { path: absolute, version, exact: false }
    return file && sourceOf(file, { type: type ?? typeOfName(absolute), name: name ?? basename(absolute), etag })
  }
}

/** A file that was found as a source. */
export async function sourceOf(
  file: FoundFile, { type, name, etag }: { readonly type: string, readonly name: string, readonly etag: EtagOptions['etag'] },
): Promise<ContentSource> {
  const { path, version } = file
  return {
    // Above 2^53 it is no longer a whole number that can be told from its neighbours, and content()
    // refuses it.
    size: Number(version.size),
    type, name,
    etag: etag === undefined ? etagOf(version) : await etag({ path, stats: version }),
    lastModified: Number(version.mtimeMs),
    open: (start, end) => readFilePart(file, start, end),
  }
}
