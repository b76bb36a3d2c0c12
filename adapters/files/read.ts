import { hash } from 'node:crypto'
import * as fs from 'node:fs'
import { lstat, stat } from 'node:fs/promises'
import { promisify } from 'node:util'
import { httpError } from '../../src/http/errors.js'
import { setTimeout } from '../../src/runtime/timers.js'

// Less CPU time than the methods of file handles.
const open = promisify(fs.open)
const close = promisify(fs.close)
const read = promisify(fs.read)
const fstat = promisify(fs.fstat)

/** Chunk size in bytes. There is no read-ahead: the socket buffer keeps the network busy. */
const CHUNK = 128 * 1024

const LOOK_EVERY = 16

/** Windows has neither flag. */
const { O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } =
  fs.constants as Partial<typeof fs.constants> & typeof fs.constants

const TICK_MS = 20

const ABSENT = new Set(['ENOENT', 'ENOTDIR', 'ENAMETOOLONG', 'ELOOP', 'EACCES', 'EPERM', 'EINVAL'])

export interface FoundFile {
  readonly path: string
  readonly version: fs.BigIntStats
  /** True if `path` has no symbolic links and must have none when it is opened. */
  readonly exact: boolean
}

/** Takes a chunk back that the consumer has no further use for. */
export type Chunks = AsyncGenerator<Uint8Array, void, Uint8Array | undefined>

/**
 * Yields a range of one version of a file. If the file is changed in place, fails before the last
 * byte, so that no client gets a mixture.
 */
export async function* readFilePart(
  file: FoundFile, start: number, end: number,
): Chunks {
  const fd = await openFile(file)
  try {
    let taken = 0
    yield* readChunks(fd, start, end, async (bytesRead, at) => {
      const isFirst = taken === 0
      const look = bytesRead === 0 || at === end || taken++ % LOOK_EVERY === 0
      if (look) await checkVersion(fd, file.version, isFirst)
      if (bytesRead === 0) throw changedMidway()
    })
  } finally {
    await close(fd)
  }
}

/**
 * Yields a range of a descriptor. A consumer that passes a chunk back to `next` has no further use
 * for the chunk, so the next chunk takes its memory: V8 would collect all garbage for each 32 MiB
 * of new buffers.
 * @param check - called for each chunk before it is yielded, with its size and the position of its
 * end. Throws at the end of the file, which has a size of 0.
 */
export async function* readChunks(
  fd: number, start: number, end: number,
  check: (bytesRead: number, at: number) => void | Promise<void>,
): Chunks {
  let memory = memoryFor(start, end)
  for (let at = start; at < end; ) {
    const { bytesRead } = await read(fd, memory, 0, Math.min(memory.length, end - at), at)
    at += bytesRead
    await check(bytesRead, at)
    const chunk = memory.subarray(0, bytesRead)
    const returned = yield chunk
    if (returned !== chunk) memory = memoryFor(at, end)
  }
}

function memoryFor(at: number, end: number): Buffer {
  return Buffer.allocUnsafeSlow(Math.min(CHUNK, end - at))
}

/**
 * Opens a file, and reads nothing. The version of the file is checked when the first chunk has been
 * read, which is before anything is sent.
 */
async function openFile({ path, exact }: FoundFile): Promise<number> {
  let fd: number
  try {
    fd = await open(path, O_RDONLY | O_NONBLOCK | (exact ? O_NOFOLLOW : 0))
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (isAbsent(error)) throw httpError('not_found', { cause: error })
    if (code === 'EMFILE' || code === 'ENFILE') throw busy(error)
    throw error
  }
  if (!exact || liesAt(fd, path)) return fd
  await close(fd)
  throw busy('The file was reached by another way than it was found')
}

async function checkVersion(fd: number, version: fs.BigIntStats, isFirst: boolean): Promise<void> {
  const now = await fstat(fd, { bigint: true })
  if (isFirst && !isSameVersion(now, version)) {
    throw busy('The file changed between its being found and opened')
  }
  if (!hasSameContent(now, version)) throw changedMidway()
}

/** Reads a link of /proc, which is in memory. */
function liesAt(fd: number, path: string): boolean {
  if (process.platform !== 'linux') return true
  try {
    return fs.readlinkSync(`/proc/self/fd/${fd}`) === path
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
): Promise<fs.BigIntStats | undefined> {
  const look = links === 'follow' ? stat : lstat
  try {
    let stats = await look(path, { bigint: true })
    const age = Date.now() - Number(stats.ctimeMs)
    if (age >= 0 && age < TICK_MS) {
      await new Promise((resolve) => { setTimeout(resolve, TICK_MS - age) })
      stats = await look(path, { bigint: true })
    }
    // Opening a pipe or a device could block forever.
    return stats.isFile() ? stats : undefined
  } catch (error) {
    if (isAbsent(error)) return undefined
    throw error
  }
}

export function isSameVersion(a: fs.BigIntStats, b: fs.BigIntStats): boolean {
  return a.ino === b.ino && a.dev === b.dev && a.ctimeNs === b.ctimeNs && hasSameContent(a, b)
}

export function hasSameContent(a: fs.BigIntStats, b: fs.BigIntStats): boolean {
  return a.size === b.size && a.mtimeNs === b.mtimeNs
}

/** Returns a strong entity tag. Hashed, because inode numbers are private. */
export function etagOf({ dev, ino, size, mtimeNs, ctimeNs }: fs.BigIntStats): string {
  const digest = hash('sha256', `${dev}:${ino}:${size}:${mtimeNs}:${ctimeNs}`, 'base64url')
  return `"${digest.slice(0, 22)}"`
}
