import { constants, read, type BigIntStats } from 'node:fs'
import { open, readlink, type FileHandle } from 'node:fs/promises'
import { httpError } from '../../src/http/errors.js'
import { hasSameContent, isAbsent, isSameVersion } from './version.js'

/**
 * What one client's download holds. Nothing is read ahead: what the system holds for the socket
 * keeps the network busy meanwhile.
 */
const CHUNK = 128 * 1024

/**
 * Whether the file is still the same is looked at after so many chunks, and before the last one is
 * out.
 */
const LOOK_EVERY = 16

/** Windows has neither of them. */
const { O_RDONLY, O_NOFOLLOW = 0, O_NONBLOCK = 0 } = constants as Partial<typeof constants> & typeof constants

/** A file as it was found. */
export interface FoundFile {
  readonly path: string
  readonly version: BigIntStats
  /** Whether `path` is free of symbolic links and has to be so when it is opened. */
  readonly exact: boolean
}

/**
 * The bytes of a part of a file, and of no other version of it. A file that another one took the
 * place of is read to its end as it was. One that is changed in place while it is read fails before
 * its last byte is out, so that nobody takes a mixture for whole.
 */
export async function* readFilePart(file: FoundFile, start: number, end: number): AsyncGenerator<Uint8Array, void, undefined> {
  const handle = await openVersion(file)
  try {
    let taken = 0
    for (let at = start; at < end;) {
      const chunk = await readChunk(handle.fd, at, end)
      if (chunk.byteLength === 0) throw changedMidway()
      at += chunk.byteLength
      const look = at === end || ++taken % LOOK_EVERY === 0
      if (look && !hasSameContent(await handle.stat({ bigint: true }), file.version)) throw changedMidway()
      yield chunk
    }
  } finally {
    await handle.close()
  }
}

/** Half the work of the method that file handles have for it. */
function readChunk(fd: number, at: number, end: number): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    const length = Math.min(CHUNK, end - at)
    read(fd, Buffer.allocUnsafeSlow(length), 0, length, at, (error, bytesRead, buffer) => {
      if (error !== null) reject(error)
      else resolve(bytesRead === length ? buffer : buffer.subarray(0, bytesRead))
    })
  })
}

/**
 * Opens a file and makes sure that it is the very one that was found, whatever happened to names
 * and links meanwhile.
 */
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
    if (!isSameVersion(await handle.stat({ bigint: true }), version)) throw busy('The file changed between its being found and opened')
    if (exact && !await liesAt(handle, path)) throw busy('The file was reached by another way than it was found')
    return handle
  } catch (error) {
    await handle.close()
    throw error
  }
}

/**
 * Linux tells where an open file really lies, so a folder on the way can't have been exchanged for
 * a link. Elsewhere: it is not known.
 */
async function liesAt(handle: FileHandle, path: string): Promise<boolean> {
  if (process.platform !== 'linux') return true
  try {
    return await readlink(`/proc/self/fd/${handle.fd}`) === path
  } catch {
    // There is no /proc in here.
    return true
  }
}

function busy(cause: unknown): Error {
  return httpError('service_unavailable', { headers: { 'retry-after': '1' }, cause })
}

function changedMidway(): Error {
  return new Error('The file was changed while it was sent')
}
