import { createHash } from 'node:crypto'
import { constants, read, type BigIntStats } from 'node:fs'
import { lstat, open, readlink, stat, type FileHandle } from 'node:fs/promises'
import { httpError } from '../../src/http/errors.js'
import { setTimeout } from '../../src/runtime/timers.js'

/** Chunk size in bytes. There is no read-ahead: the socket buffer keeps the network busy. */
const CHUNK = 128 * 1024

const LOOK_EVERY = 16

/** Windows has neither flag. */
const {
  O_RDONLY,
  O_NOFOLLOW = 0,
  O_NONBLOCK = 0,
} = constants as Partial<typeof constants> & typeof constants

const TICK_MS = 20

const ABSENT = new Set(['ENOENT', 'ENOTDIR', 'ENAMETOOLONG', 'ELOOP', 'EACCES', 'EPERM', 'EINVAL'])

export interface FoundFile {
  readonly path: string
  readonly version: BigIntStats
  /** True if `path` has no symbolic links and must have none when it is opened. */
  readonly exact: boolean
}

/**
 * Yields a range of one version of a file. If the file is changed in place, fails before the last
 * byte, so that no client gets a mixture.
 */
export async function* readFilePart(
  file: FoundFile, start: number, end: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  const handle = await openVersion(file)
  try {
    let taken = 0
    for (let at = start; at < end; ) {
      const chunk = await readChunk(handle.fd, at, end)
      if (chunk.byteLength === 0) throw changedMidway()
      at += chunk.byteLength
      const look = at === end || ++taken % LOOK_EVERY === 0
      if (look && !hasSameContent(await handle.stat({ bigint: true }), file.version)) {
        throw changedMidway()
      }
      yield chunk
    }
  } finally {
    await handle.close()
  }
}

/** Twice as fast as the method of file handles. */
function readChunk(fd: number, at: number, end: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const length = Math.min(CHUNK, end - at)
    read(fd, Buffer.allocUnsafeSlow(length), 0, length, at, (error, bytesRead, buffer) => {
      if (error !== null) reject(error)
      else resolve(bytesRead === length ? buffer : buffer.subarray(0, bytesRead))
    })
  })
}

async function openVersion({ path, version, exact }: FoundFile): Promise<FileHandle> {
  let handle: FileHandle
  try {
    handle = await open(path, O_RDONLY | O_NONBLOCK | (exact ? O_NOFOLLOW : 0))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (isAbsent(error)) throw httpError('not_found', { cause: error })
    if (code === 'EMFILE' || code === 'ENFILE') throw busy(error)
    throw error
  }
  try {
    if (!isSameVersion(await handle.stat({ bigint: true }), version)) {
      throw busy('The file changed between its being found and opened')
    }
    if (exact && !(await liesAt(handle, path))) {
      throw busy('The file was reached by another way than it was found')
    }
    return handle
  } catch (error) {
    await handle.close()
    throw error
  }
}

async function liesAt(handle: FileHandle, path: string): Promise<boolean> {
  if (process.platform !== 'linux') return true
  try {
    return await readlink(`/proc/self/fd/${handle.fd}`) === path
  } catch {
    // There is no /proc.
    return true
  }
}

function busy(cause: unknown): Error {
  return httpError('service_unavailable', { headers: { 'retry-after': '1' }, cause })
}

function changedMidway(): Error {
  return new Error('The file was changed while it was sent')
}

/** Returns true if there is no such file, or none that this process may read. */
export function isAbsent(error: unknown): boolean {
  return ABSENT.has((error as NodeJS.ErrnoException | null)?.code ?? '')
}

export async function versionOf(
  path: string, links: 'follow' | 'refuse',
): Promise<BigIntStats | undefined> {
  const look = (): Promise<BigIntStats> =>
    (links === 'follow' ? stat : lstat)(path, { bigint: true })
  try {
    let stats = await look()
    const age = Date.now() - Number(stats.ctimeMs)
    if (age >= 0 && age < TICK_MS) {
      await new Promise((resolve) => { setTimeout(resolve, TICK_MS - age) })
      stats = await look()
    }
    // Opening a pipe or a device could block forever.
    return stats.isFile() ? stats : undefined
  } catch (error) {
    if (isAbsent(error)) return undefined
    throw error
  }
}

export function isSameVersion(a: BigIntStats, b: BigIntStats): boolean {
  return a.ino === b.ino && a.dev === b.dev && a.ctimeNs === b.ctimeNs && hasSameContent(a, b)
}

export function hasSameContent(a: BigIntStats, b: BigIntStats): boolean {
  return a.size === b.size && a.mtimeNs === b.mtimeNs
}

/** Returns a strong entity tag. Hashed, because inode numbers are private. */
export function etagOf({ dev, ino, size, mtimeNs, ctimeNs }: BigIntStats): string {
  const hash = createHash('sha256').update(`${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`)
    .digest('base64url')
  return `"${hash.slice(0, 22)}"`
}
