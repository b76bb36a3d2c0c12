import * as zlib from 'node:zlib'
import { bodyTooLarge, httpError, mustBeIdentity } from '../errors.js'
import type { HttpRequest, RequestHeaders } from '../exchange.js'
import { isStillCoded } from '../headers/digests.js'
import { DecoderMemory } from './counted-body.js'
import { ZlibPump, type ZlibEngine, zlibConstants, zstd, ZstdFrames } from './zlib.js'

/** Limits for reading a body with a content coding. */
export interface DecodeOptions {
  /** Maximum size of the body as sent, in bytes. */
  readonly maxBodyBytes: number
  /** Maximum size of the decoded body, in bytes. Default: `maxBodyBytes`. */
  readonly maxDecodedBytes?: number
  /** Maximum number of decoded bytes for each byte sent, after 1 MiB of them. Default: 250. */
  readonly maxRatio?: number
}

const CHUNK_BYTES = 65_536
const RATIO_FROM_BYTES = 1_048_576
const DEFLATE_WINDOW = 32_768

const { createZstdDecompress: makeZstd } = zstd

export const REQUEST_CODINGS: readonly string[] = [
  'gzip', 'deflate', 'br', ...(makeZstd ? ['zstd'] : []),
]

const ACCEPTED = REQUEST_CODINGS.join(', ')

/** Returns the content coding of a request. Throws 415 for an unknown coding, or for several. */
export function requestCoding(headers: RequestHeaders): string {
  const header = headers['content-encoding']
  if (header === undefined || header === '') return 'identity'
  const name = typeof header === 'string' ? header.trim().toLowerCase() : ''
  const coding = name === 'x-gzip' ? 'gzip' : name
  if (coding === 'identity' || REQUEST_CODINGS.includes(coding)) return coding
  // RFC 9110 section 15.5.16.
  throw httpError('unsupported_content_coding', { headers: { 'accept-encoding': ACCEPTED } })
}

/**
 * Returns the coding of the bytes that the body of a request gives: `identity` if your framework
 * has decoded them. Throws what `requestCoding` does, and 415 if your framework has made text of
 * coded bytes.
 */
export function bodyCoding(
  { headers, body: { parsed } }: Pick<HttpRequest<unknown>, 'headers' | 'body'>,
): string {
  if (parsed === undefined) return requestCoding(headers)
  if (!isStillCoded(headers, parsed.value)) return 'identity'
  if (parsed.value instanceof Uint8Array) return requestCoding(headers)
  throw mustBeIdentity()
}

/**
 * Decodes one of `REQUEST_CODINGS`, or `identity`, with backpressure. The bytes before an error are
 * valid. Rejects with `body_too_large` (413), `malformed_coding` or `incomplete_body` (400),
 * `unsupported_content_coding` (415: the window is above 4 MiB for br, 8 MiB for zstd),
 * `too_many_requests` (429) or `overloaded` (503: open decoders take too much memory).
 * @param countedFor - the request that the memory counts for, or memory that the reader releases
 */
export function decodeBytes(
  source: AsyncIterable<Uint8Array>, coding: string, options: DecodeOptions,
  countedFor?: HttpRequest<unknown> | DecoderMemory,
): AsyncGenerator<Uint8Array, void, undefined> {
  const caps = new Caps(options)
  const sent = countSent(source, caps, coding === 'identity')
  return coding === 'identity' ? sent : inflate(sent, coding, caps, countedFor)
}

class Caps {
  sent = 0
  decoded = 0

  constructor(private readonly limits: DecodeOptions) {}

  addSent(bytes: number): void {
    this.sent += bytes
    if (this.sent > this.limits.maxBodyBytes) throw bodyTooLarge(this.limits.maxBodyBytes)
  }

  addDecoded(bytes: number): void {
    const { maxBodyBytes, maxDecodedBytes = maxBodyBytes, maxRatio = 250 } = this.limits
    this.decoded += bytes
    const isLarge = this.decoded > maxDecodedBytes
    if (!isLarge && this.decoded <= Math.max(RATIO_FROM_BYTES, this.sent * maxRatio)) return
    const size = isLarge
      ? `larger than ${maxDecodedBytes} bytes` : `more than ${maxRatio} times as large`
    throw httpError('body_too_large', { message: `The body is ${size} once decoded.` })
  }
}

async function* countSent(
  source: AsyncIterable<Uint8Array>, caps: Caps, decoded: boolean,
): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const piece of source) {
    caps.addSent(piece.byteLength)
    if (decoded) caps.addDecoded(piece.byteLength)
    yield piece
  }
}

async function* inflate(
  source: AsyncIterable<Uint8Array>, coding: string, caps: Caps,
  owner: HttpRequest<unknown> | DecoderMemory | undefined,
): AsyncGenerator<Uint8Array, void, undefined> {
  let pump: ZlibPump | undefined
  let fed = 0
  const isShared = owner instanceof DecoderMemory
  const memory = isShared ? owner : owner && new DecoderMemory(owner)
  const frames = coding === 'zstd' ? new ZstdFrames() : undefined
  try {
    for await (const piece of source) {
      for (let rest = piece; rest.byteLength > 0;) {
        // An engine ends if it gets bytes behind a frame of zstd, so each write ends with one.
        const size = frames ? frames.push(rest) : rest.byteLength
        const part = rest.subarray(0, size)
        rest = rest.subarray(size)
        if (frames || pump === undefined) {
          const window = windowOf(coding, part, frames)
          memory?.hold(window)
        }
        pump ??= new ZlibPump(makeEngine(coding, part[0] as number))
        pump.write(part)
        fed += size
        yield* outputOf(pump, caps)
        // Node continues by itself with the next member of gzip.
        if (pump.used < fed) throw httpError('malformed_coding')
      }
    }
    if (pump !== undefined) {
      pump.end()
      yield* outputOf(pump, caps)
    }
    if (caps.sent === 0 || frames?.complete === false) throw httpError('incomplete_body')
  } finally {
    pump?.close()
    if (!isShared) memory?.release()
  }
}

/** Returns the window in bytes. `part` is the first part of the body, except for zstd. */
function windowOf(coding: string, part: Uint8Array, frames: ZstdFrames | undefined): number {
  if (frames) return checkedWindow('zstd', frames.window, MAX_ZSTD_WINDOW_LOG)
  if (coding !== 'br') return DEFLATE_WINDOW
  const log = brotliWindowLog(part[0] as number)
  if (log === undefined) throw httpError('malformed_coding')
  return checkedWindow('br', 2 ** log, MAX_BROTLI_WINDOW_LOG)
}

async function* outputOf(pump: ZlibPump, caps: Caps): AsyncGenerator<Uint8Array, void, undefined> {
  for (;;) {
    const bytes = await pump.next().catch((error: unknown) => {
      // No cause, because bytes from a client are no failure of the server.
      const isCut = (error as { code?: unknown }).code === 'Z_BUF_ERROR'
      throw httpError(isCut ? 'incomplete_body' : 'malformed_coding')
    })
    if (bytes === undefined) return
    caps.addDecoded(bytes.byteLength)
    yield bytes
  }
}

function makeEngine(coding: string, firstByte: number): ZlibEngine {
  const options = { chunkSize: CHUNK_BYTES }
  if (coding === 'gzip') return zlib.createGunzip(options)
  if (coding === 'br') return zlib.createBrotliDecompress(options)
  if (coding === 'deflate') {
    // `deflate` means zlib's format (RFC 9110 section 8.4.1.2), but some clients send it bare.
    const hasHeader = (firstByte & 0x0f) === 8
    return hasHeader ? zlib.createInflate(options) : zlib.createInflateRaw(options)
  }
  if (coding === 'zstd' && makeZstd) {
    const param = zlibConstants['ZSTD_d_windowLogMax'] ?? 0
    return makeZstd({ ...options, params: { [param]: MAX_ZSTD_WINDOW_LOG } })
  }
  throw new TypeError(`decodeBytes: ${coding} is not one of ${ACCEPTED}`)
}

const MAX_BROTLI_WINDOW_LOG = 22
/** RFC 9659: the largest window that a decoder must support. */
const MAX_ZSTD_WINDOW_LOG = 23

/** Returns the window of a brotli stream by its first byte (RFC 7932 section 9.1). */
function brotliWindowLog(bits: number): number | undefined {
  if ((bits & 1) === 0) return 16
  const long = bits >> 1 & 7
  if (long > 0) return 17 + long
  const short = bits >> 4 & 7
  if (short === 0) return 17
  // 1 marks the large windows of another format.
  return short === 1 ? undefined : 8 + short
}

function checkedWindow(coding: string, bytes: number, maxLog: number): number {
  if (bytes <= 2 ** maxLog) return bytes
  throw httpError('unsupported_content_coding', {
    message: `The ${coding} window of the body is ${bytes} bytes. Compress it with a window of at`
      + ` most ${2 ** maxLog} bytes (window log ${maxLog}).`,
  })
}
