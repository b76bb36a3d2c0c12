import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { link, lstat, open, readdir, rename, rm, type FileHandle } from 'node:fs/promises'
import { join } from 'node:path'
import type { BlobInfo } from '../../src/stores/blobs.js'
import { readChunks, type Chunks } from './read.js'
import { countedBytes, countedBytesOf, PARTIAL, partialName, type FolderClock } from './folder-space.js'

/** Flags for opening files. Windows has neither `O_NOFOLLOW` nor `O_NONBLOCK`. */
const {
  O_RDONLY, O_RDWR, O_NOFOLLOW = 0, O_NONBLOCK = 0,
} = constants as Partial<typeof constants> & typeof constants

/** Codes for a name that is no file. The last two: a symbolic link, on Linux and on FreeBSD. */
const NO_FILE = new Set(['ENOENT', 'ELOOP', 'EMLINK'])

export const HEADER_BYTES = 64
const EXPIRY_AT = 16

const MAGIC = 'longhaul blob 1\n'
const TAG_BYTES = 16
const KEY_BYTES = 16
const MAX_TRIES = 5
/** Age in milliseconds at which the writer of an incomplete file must have died. */
const ABANDONED_MS = 24 * 3_600_000

/**
 * Time in milliseconds for which an expired blob stays, so that a renewal that began before
 * completes.
 */
const SLACK_MS = 1000

export interface BlobHeader {
  readonly info: BlobInfo
  /** Time of expiry in milliseconds since 1970, by the clock of the folder. */
  readonly expiresAt: number
}

export interface OpenBlob extends BlobHeader {
  readonly handle: FileHandle
}

/** Follows no link, and does not wait for the writer of a pipe. */
export async function openBlob(
  path: string, access: number = O_RDONLY,
): Promise<OpenBlob | undefined> {
  let handle: FileHandle
  try {
    handle = await open(path, access | O_NOFOLLOW | O_NONBLOCK)
  } catch (error) {
    if (NO_FILE.has((error as NodeJS.ErrnoException).code ?? '')) return undefined
    throw error
  }
  try {
    const header = await headerOf(handle)
    if (header !== undefined) return { handle, ...header }
    await handle.close()
    return undefined
  } catch (error) {
    await handle.close()
    throw error
  }
}

async function headerOf(handle: FileHandle): Promise<BlobHeader | undefined> {
  const stats = await handle.stat()
  if (stats.isFIFO()) return undefined
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(HEADER_BYTES), 0, HEADER_BYTES, 0)
  return readHeader(buffer.subarray(0, bytesRead), stats.size)
}

export async function blobHeader(path: string): Promise<BlobHeader | undefined> {
  const blob = await openBlob(path)
  await blob?.handle.close()
  return blob
}

export function readBlob({ handle }: OpenBlob, start: number, end: number): Chunks {
  return readChunks(handle.fd, HEADER_BYTES + start, HEADER_BYTES + end, (bytesRead) => {
    if (bytesRead === 0) throw new Error('The file of a blob was cut short by somebody else')
  })
}

export async function writeAll(
  handle: FileHandle, bytes: Uint8Array, position: number,
): Promise<void> {
  for (let done = 0; done < bytes.byteLength; ) {
    const { bytesWritten } = await handle.write(
      bytes, done, bytes.byteLength - done, position + done,
    )
    done += bytesWritten
  }
}

/** A hash, because file names have fewer characters than keys, and may ignore case. */
export function fileOfKey(key: string): string {
  return `${createHash('sha256').update(key).digest('hex')}.blob`
}

export function writeHeader(key: string, tag: Uint8Array, size: number, expiresAt: number): Buffer {
  const header = Buffer.alloc(HEADER_BYTES)
  header.write(MAGIC, 'latin1')
  header.writeDoubleBE(expiresAt, EXPIRY_AT)
  header.writeDoubleBE(size, 24)
  header.set(tag.subarray(0, TAG_BYTES), 32)
  createHash('sha256').update(key).digest().copy(header, 48, 0, KEY_BYTES)
  return header
}

export function infoOf(tag: Uint8Array, size: number): BlobInfo {
  const text = Buffer.from(tag.buffer, tag.byteOffset, TAG_BYTES).toString('base64url')
  return { size, etag: `"${text}"` }
}

/**
 * Returns `undefined` if the header is not valid, or the file is not as long as the header says.
 */
function readHeader(header: Buffer, fileSize: number): BlobHeader | undefined {
  if (header.byteLength < HEADER_BYTES || header.toString('latin1', 0, MAGIC.length) !== MAGIC) {
    return undefined
  }
  const size = header.readDoubleBE(24)
  if (size + HEADER_BYTES !== fileSize) return undefined
  return {
    info: infoOf(header.subarray(32, 32 + TAG_BYTES), size),
    expiresAt: header.readDoubleBE(EXPIRY_AT),
  }
}

/** Makes a blob live for at least `ttlMs` from now. Returns `undefined` if there is none. */
export async function renewFile(
  path: string, ttlMs: number, clock: Pick<FolderClock, 'now'>,
): Promise<BlobInfo | undefined> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const blob = await openBlob(path, O_RDWR)
    if (blob === undefined) return undefined
    try {
      const now = await clock.now()
      if (blob.expiresAt <= now) return undefined
      if (blob.expiresAt < now + ttlMs) await writeExpiry(blob, now + ttlMs)
      const named = await fileNow(path)
      if (named === undefined) return undefined
      // Otherwise another process has replaced the blob meanwhile.
      if (named === (await blob.handle.stat({ bigint: true })).ino) return blob.info
    } finally {
      await blob.handle.close()
    }
  }
  throw new Error('The blob was replaced each time that it was renewed')
}

/** Writes eight bytes that lie within one sector, so a crash leaves the old expiry or the new one. */
async function writeExpiry({ handle }: OpenBlob, expiresAt: number): Promise<void> {
  const bytes = Buffer.alloc(8)
  bytes.writeDoubleBE(expiresAt)
  await writeAll(handle, bytes, EXPIRY_AT)
}

async function fileNow(path: string): Promise<bigint | undefined> {
  try {
    return (await lstat(path, { bigint: true })).ino
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

/** Callbacks of a sweep of a folder. */
export interface Sweeper {
  readonly isStopped: () => boolean
  /** Returns whether a partial file is being written. */
  readonly isReserved: (name: string) => boolean
  /** Called for each file that could not be removed, and remains. */
  readonly onFailure: (error: unknown) => void
}

/** Removes expired blobs. Returns the bytes of what remains. */
export async function sweepFolder(
  folder: string, now: number, { isStopped, isReserved, onFailure }: Sweeper,
): Promise<number> {
  let bytes = 0
  for (const name of await readdir(folder)) {
    if (isStopped()) break
    const path = join(folder, name)
    if (name.endsWith('.blob')) {
      try {
        const header = await blobHeader(path)
        if (isSwept(header, now)) await removeExpired(folder, path, now)
      } catch (error) {
        onFailure(error)
      }
      bytes += await countedBytesOf(path)
    } else if (name.endsWith(PARTIAL)) {
      const stats = await lstat(path).catch(() => undefined)
      if (stats === undefined) continue
      if (stats.mtimeMs < now - ABANDONED_MS) await rm(path, { force: true }).catch(onFailure)
      else if (!isReserved(name)) bytes += countedBytes(stats.size)
    }
  }
  return bytes
}

function isSwept(header: BlobHeader | undefined, now: number): boolean {
  return header !== undefined && header.expiresAt <= now - SLACK_MS
}

/**
 * Renames the file first, because another process may write a new blob under its name, or renew it.
 * A blob that has not expired gets its name back, unless a newer one has it.
 */
async function removeExpired(folder: string, path: string, now: number): Promise<void> {
  const aside = join(folder, partialName())
  try {
    await rename(path, aside)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
    throw error
  }
  const header = await blobHeader(aside)
  if (header !== undefined && !isSwept(header, now)) await link(aside, path).catch(() => undefined)
  await rm(aside, { force: true })
}
