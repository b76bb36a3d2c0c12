import * as zlib from 'node:zlib'
import { httpError, type HttpError } from '../errors.js'
import type { HttpRequest, RequestHeaders } from '../exchange.js'
import { Gathered } from '../../runtime/byte-buffer.js'
import { checkNames } from '../../runtime/option-names.js'
import { ZlibPump, type ZlibEngine } from './zlib-pump.js'
import { ZstdFrames } from './zstd-frames.js'

/** How much of a coded body is read. */
export interface DecodeOptions {
  /** Bytes as sent. */
  readonly maxBodyBytes: number
  /** Bytes once decoded. Default: `maxBodyBytes`. */
  readonly maxDecodedBytes?: number
  /**
   * Decoded bytes for one byte sent, once there are more than 1 MiB of them. Default 250; gzip can
   * reach 1032.
   */
  readonly maxRatio?: number
}

const KNOWN = { maxBodyBytes: 0, maxDecodedBytes: 0, maxRatio: 0 } satisfies Record<keyof DecodeOptions, 0>
const CHUNK_BYTES = 65_536
const RATIO_FROM_BYTES = 1_048_576
/** RFC 9659: what a decoder has to bear, 8 MiB. Frames that ask for more are refused. */
const ZSTD_WINDOW_LOG = 23

type MakeZstd = (options: object) => ZlibEngine
// Node 22.15 and later; the types are those of Node 20.
const makeZstd = (zlib as unknown as Readonly<Record<string, MakeZstd | undefined>>)['createZstdDecompress']
const zstdWindowParam = (zlib.constants as unknown as Readonly<Record<string, number>>)['ZSTD_d_windowLogMax'] ?? 0

/**
 * The content codings that request bodies may have here: `gzip`, `deflate`, `br`, and `zstd` where
 * Node has it.
 */
export const REQUEST_CODINGS: readonly string[] = ['gzip', 'deflate', 'br', ...(makeZstd ? ['zstd'] : [])]

const ACCEPTED = REQUEST_CODINGS.join(', ')

/**
 * The one content coding of a request, `identity` when it has none. `x-gzip` is `gzip` (RFC 9110
 * section 8.4.1.3).
 * @throws {HttpError} `unsupported_content_coding` (415) for others, and for several on top of each
 * other
 */
export function requestCoding(headers: RequestHeaders): string {
  const field = headers['content-encoding']
  if (field === undefined || field === '') return 'identity'
  const name = typeof field === 'string' ? field.trim().toLowerCase() : ''
  const coding = name === 'x-gzip' ? 'gzip' : name
  if (coding === 'identity' || REQUEST_CODINGS.includes(coding)) return coding
  // RFC 9110 section 15.5.16.
  throw httpError('unsupported_content_coding', { headers: { 'accept-encoding': ACCEPTED } })
}

/**
 * The body as it arrives, its content coding undone, with backpressure; nothing is held beyond a
 * few chunks. Text and bytes that the host's own parser left are taken as decoded already. A body
 * that ends inside of its coding is an `incomplete_body`; anything behind the end of it is
 * malformed, except further members of gzip and frames of zstd.
 *
 * Throws at once, before anything is read, `unsupported_content_coding` (415), and `body_too_large`
 * (413) by Content-Length. While it is read it rejects with `body_too_large`, `malformed_coding` or
 * `incomplete_body` (400): what came before that is good.
 */
export function decodeBody(request: HttpRequest, options: DecodeOptions): AsyncIterable<Uint8Array> {
  checkNames('decodeBody', options, KNOWN)
  const coding = request.body.parsed === undefined ? requestCoding(request.headers) : 'identity'
  const length = request.headers['content-length']
  if (typeof length === 'string' && Number(length) > options.maxBodyBytes) throw tooLarge(options.maxBodyBytes)
  return decodeBytes(request.body.stream(), coding, options)
}

/**
 * All of a decoded body at once. Rejects as `decodeBody` does, and when it is larger than
 * `maxDecodedBytes`.
 */
export async function readDecoded(request: HttpRequest, options: DecodeOptions): Promise<Uint8Array> {
  checkNames('readDecoded', options, KNOWN)
  const gathered = new Gathered()
  for await (const piece of decodeBody(request, options)) gathered.add(piece)
  return gathered.bytes
}

/**
 * Undoes a coding of `REQUEST_CODINGS`, or `identity`, with the same bounds and errors as
 * `decodeBody`.
 */
export function decodeBytes(source: AsyncIterable<Uint8Array>, coding: string, options: DecodeOptions): AsyncGenerator<Uint8Array, void, undefined> {
  const caps = new Caps(options)
  const sent = countSent(source, caps, coding === 'identity')
  return coding === 'identity' ? sent : inflate(sent, coding, caps)
}

/** What has gone by, and how much may. */
class Caps {
  readonly maxBodyBytes: number
  readonly maxDecodedBytes: number
  readonly maxRatio: number
  sent = 0
  decoded = 0

  constructor({ maxBodyBytes, maxDecodedBytes = maxBodyBytes, maxRatio = 250 }: DecodeOptions) {
    this.maxBodyBytes = maxBodyBytes
    this.maxDecodedBytes = maxDecodedBytes
    this.maxRatio = maxRatio
  }

  addSent(bytes: number): void {
    this.sent += bytes
    if (this.sent > this.maxBodyBytes) throw tooLarge(this.maxBodyBytes)
  }

  addDecoded(bytes: number): void {
    this.decoded += bytes
    if (this.decoded > this.maxDecodedBytes) {
      throw httpError('body_too_large', { message: `The body is larger than ${this.maxDecodedBytes} bytes once decoded.` })
    }
    if (this.decoded > RATIO_FROM_BYTES && this.decoded > this.sent * this.maxRatio) {
      throw httpError('body_too_large', { message: `The body is more than ${this.maxRatio} times as large once decoded.` })
    }
  }
}

function tooLarge(maxBodyBytes: number): HttpError {
  return httpError('body_too_large', { message: `The body is larger than ${maxBodyBytes} bytes.` })
}

async function* countSent(source: AsyncIterable<Uint8Array>, caps: Caps, decoded: boolean): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const piece of source) {
    caps.addSent(piece.byteLength)
    if (decoded) caps.addDecoded(piece.byteLength)
    yield piece
  }
}

async function* inflate(source: AsyncIterable<Uint8Array>, coding: string, caps: Caps): AsyncGenerator<Uint8Array, void, undefined> {
  let pump: ZlibPump | undefined
  let fed = 0
  const frames = coding === 'zstd' ? new ZstdFrames() : undefined
  try {
    for await (const piece of source) {
      frames?.push(piece)
      for (let rest = piece; rest.byteLength > 0;) {
        if (pump === undefined) {
          pump = new ZlibPump(makeEngine(coding, rest[0] as number))
          fed = 0
        }
        fed += rest.byteLength
        pump.write(rest)
        yield* outputOf(pump, caps)
        if (pump.used === fed) break
        // The engine has come to its end. Node goes on by itself with the next member of gzip, but
        // not with the next frame of zstd.
        rest = rest.subarray(rest.byteLength - (fed - pump.used))
        if (coding !== 'zstd') throw httpError('malformed_coding')
        pump.close()
        pump = undefined
      }
    }
    if (pump !== undefined) {
      pump.end()
      yield* outputOf(pump, caps)
    }
    if (caps.sent === 0 || frames?.complete === false) throw httpError('incomplete_body')
  } finally {
    pump?.close()
  }
}

async function* outputOf(pump: ZlibPump, caps: Caps): AsyncGenerator<Uint8Array, void, undefined> {
  for (;;) {
    const bytes = await nextOf(pump)
    if (bytes === undefined) return
    caps.addDecoded(bytes.byteLength)
    yield bytes
  }
}

async function nextOf(pump: ZlibPump): Promise<Uint8Array | undefined> {
  try {
    return await pump.next()
  } catch (error) {
    // Without a cause: what a client sends is no failure of the host's.
    throw httpError((error as { code?: unknown }).code === 'Z_BUF_ERROR' ? 'incomplete_body' : 'malformed_coding')
  }
}

function makeEngine(coding: string, firstByte: number): ZlibEngine {
  const options = { chunkSize: CHUNK_BYTES }
  if (coding === 'gzip') return zlib.createGunzip(options)
  if (coding === 'br') return zlib.createBrotliDecompress(options)
  // `deflate` means zlib's format (RFC 9110 section 8.4.1.2), but some clients send it bare.
  if (coding === 'deflate') return (firstByte & 0x0f) === 8 ? zlib.createInflate(options) : zlib.createInflateRaw(options)
  if (coding === 'zstd' && makeZstd) return makeZstd({ ...options, params: { [zstdWindowParam]: ZSTD_WINDOW_LOG } })
  throw new TypeError(`decodeBytes: ${coding} is not one of ${ACCEPTED}`)
}
