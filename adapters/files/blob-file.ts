import { open, type FileHandle } from 'node:fs/promises'
import { HEADER_BYTES, readHeader, type BlobHeader } from './blob-header.js'

const CHUNK = 64 * 1024

/** An open blob. The caller closes `handle`. */
export interface OpenBlob extends BlobHeader {
  readonly handle: FileHandle
}

/**
 * Opens the file of a blob. Returns `undefined` if there is no complete one.
 *
 * @param flags - `r+` to renew the blob
 */
export async function openBlob(
  path: string, flags: 'r' | 'r+' = 'r',
): Promise<OpenBlob | undefined> {
  let handle: FileHandle
  try {
    handle = await open(path, flags)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
  try {
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(HEADER_BYTES), 0, HEADER_BYTES, 0)
    const header = readHeader(buffer.subarray(0, bytesRead), (await handle.stat()).size)
    if (header !== undefined) return { handle, ...header }
    await handle.close()
    return undefined
  } catch (error) {
    await handle.close()
    throw error
  }
}

/** Reads the header of a blob's file. */
export async function blobHeader(path: string): Promise<BlobHeader | undefined> {
  const blob = await openBlob(path)
  await blob?.handle.close()
  return blob
}

/**
 * Yields bytes of an open blob. The bytes of a complete file are never changed, so no check is
 * needed.
 */
export async function* readBlob(
  { handle }: OpenBlob,
  start: number,
  end: number,
): AsyncGenerator<Uint8Array, void, undefined> {
  for (let at = start; at < end; ) {
    const length = Math.min(CHUNK, end - at)
    const { bytesRead, buffer } = await handle.read(
      Buffer.allocUnsafeSlow(length),
      0,
      length,
      HEADER_BYTES + at,
    )
    if (bytesRead === 0) throw new Error('The file of a blob was cut short by somebody else')
    at += bytesRead
    yield bytesRead === length ? buffer : buffer.subarray(0, bytesRead)
  }
}

/** Writes all of `bytes`. The operating system may write less at a time. */
export async function writeAll(
  handle: FileHandle,
  bytes: Uint8Array,
  position: number,
): Promise<void> {
  for (let done = 0; done < bytes.byteLength; ) {
    const { bytesWritten } = await handle.write(
      bytes,
      done,
      bytes.byteLength - done,
      position + done,
    )
    done += bytesWritten
  }
}
