import { httpError } from '../errors.js'

/** Largest window of brotli that is decoded, as its base-2 logarithm: 4 MiB. */
const MAX_BROTLI_WINDOW_LOG = 22
/** RFC 9659: the largest window of zstd that a decoder must support, as its logarithm: 8 MiB. */
export const MAX_ZSTD_WINDOW_LOG = 23

/**
 * Returns the window of a brotli stream in bytes, by its first byte (RFC 7932 section 9.1).
 *
 * @throws {HttpError} 415 `unsupported_content_coding`: it is above 4 MiB. 400 `malformed_coding`
 */
export function brotliWindow(firstByte: number): number {
  const log = brotliWindowLog(firstByte)
  if (log === undefined) throw httpError('malformed_coding')
  if (log > MAX_BROTLI_WINDOW_LOG) throw tooLarge('br', 2 ** log, MAX_BROTLI_WINDOW_LOG)
  return 2 ** log
}

function brotliWindowLog(bits: number): number | undefined {
  if ((bits & 1) === 0) return 16
  const long = bits >> 1 & 7
  if (long > 0) return 17 + long
  const short = bits >> 4 & 7
  if (short === 0) return 17
  // 1 marks the large windows of another format.
  return short === 1 ? undefined : 8 + short
}

/** @throws {HttpError} 415 `unsupported_content_coding`: a zstd window is above 8 MiB. */
export function checkZstdWindow(bytes: number): void {
  if (bytes > 2 ** MAX_ZSTD_WINDOW_LOG) throw tooLarge('zstd', bytes, MAX_ZSTD_WINDOW_LOG)
}

function tooLarge(coding: string, bytes: number, maxLog: number): Error {
  return httpError('unsupported_content_coding', {
    message: `The ${coding} window of the body is ${bytes} bytes. Compress it with a window of at`
      + ` most ${2 ** maxLog} bytes (window log ${maxLog}).`,
  })
}
