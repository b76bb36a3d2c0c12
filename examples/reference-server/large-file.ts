import { createCipheriv } from 'node:crypto'

/** The size of the large file, in bytes: 64 MiB. */
export const LARGE_FILE_BYTES = 64 * 1024 * 1024

/** Size of a chunk in bytes, which is the largest part of the file in memory. */
const CHUNK_BYTES = 256 * 1024

const KEY = Buffer.from('longhaul example', 'latin1')
const CIPHER_BLOCK = 16

/**
 * The bytes of the large file from `start` up to, but not including, `end`, in chunks of at most 256 KiB. The
 * file is not stored: AES in counter mode generates the same bytes for a position each time.
 */
export function* largeFile(start = 0, end = LARGE_FILE_BYTES): Generator<Uint8Array, void, undefined> {
  for (let at = start; at < end; at += CHUNK_BYTES) yield bytesAt(at, Math.min(CHUNK_BYTES, end - at))
}

function bytesAt(position: number, length: number): Uint8Array {
  const skipped = position % CIPHER_BLOCK
  const counter = Buffer.alloc(CIPHER_BLOCK)
  counter.writeUInt32BE((position - skipped) / CIPHER_BLOCK, CIPHER_BLOCK - 4)
  return createCipheriv('aes-128-ctr', KEY, counter).update(Buffer.alloc(skipped + length)).subarray(skipped)
}
