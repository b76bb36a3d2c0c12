import { createHash } from 'node:crypto'
import type { BlobInfo } from '../../src/stores/blobs.js'

/** Header of a blob's file. */
export interface BlobHeader {
  readonly info: BlobInfo
  /** Time of expiry in milliseconds since 1970, by the clock of the folder. */
  readonly expiresAt: number
}

/** Size of the header in bytes. */
export const HEADER_BYTES = 64
/** Position of the expiry in the header. */
const EXPIRY_AT = 16

const MAGIC = 'longhaul blob 1\n'
const TAG_BYTES = 16
const KEY_BYTES = 16

/**
 * Returns the file name of a key: a hash, because keys may have characters that file names cannot
 * have, and some file systems ignore case.
 */
export function fileOfKey(key: string): string {
  return `${createHash('sha256').update(key).digest('hex')}.blob`
}

/**
 * Returns the header of a blob. Layout: 16 bytes of magic, expiry and size (IEEE 754 doubles), 16
 * bytes of the tag, 16 bytes of the key's hash.
 */
export function writeHeader(key: string, tag: Uint8Array, size: number, expiresAt: number): Buffer {
  const header = Buffer.alloc(HEADER_BYTES)
  header.write(MAGIC, 'latin1')
  header.writeDoubleBE(expiresAt, EXPIRY_AT)
  header.writeDoubleBE(size, 24)
  header.set(tag.subarray(0, TAG_BYTES), 32)
  createHash('sha256').update(key).digest().copy(header, 48, 0, KEY_BYTES)
  return header
}

/** Returns the bytes that give a header another expiry, and their position in the file. */
export function expiryPatch(
  expiresAt: number,
): { readonly bytes: Uint8Array, readonly position: number } {
  const bytes = Buffer.alloc(8)
  bytes.writeDoubleBE(expiresAt)
  return { bytes, position: EXPIRY_AT }
}

export function infoOf(tag: Uint8Array, size: number): BlobInfo {
  return {
    size,
    etag: `"${Buffer.from(tag.buffer, tag.byteOffset, TAG_BYTES).toString('base64url')}"`,
  }
}

/**
 * Parses a header. Returns `undefined` if it is not valid, or if the file does not have the stated
 * length because the disk failed midway.
 */
export function readHeader(header: Buffer, fileSize: number): BlobHeader | undefined {
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
