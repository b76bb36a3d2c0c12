import { ContentDigest } from '../fields/content-digest.js'
import { httpError, type HttpError } from '../errors.js'
import type { HttpRequest, RequestHeaders } from '../exchange.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import { isTooDeep, isJsonLarger } from './json-value.js'
import { hasUnsafeKey, parseJsonBytes } from './json-text.js'
import { parseMediaType } from '../fields/media-type.js'
import { checkNames } from '../../runtime/option-names.js'

/** How much of a body may be read. */
export interface ReadBytesOptions {
  /** The largest body that is read, in bytes as sent. */
  readonly maxBodyBytes: number
}

/** How much of a body may be read, and as what. */
export interface ReadJsonOptions extends ReadBytesOptions {
  /**
   * Media types to read, lower-case. Default: `application/json` and everything that ends in
   * `+json`.
   */
  readonly mediaTypes?: readonly string[]
}

const BYTES = { maxBodyBytes: 0 } satisfies Record<keyof ReadBytesOptions, 0>
const JSON_BODY = { maxBodyBytes: 0, mediaTypes: 0 } satisfies Record<keyof ReadJsonOptions, 0>
const CHARSETS = new Set(['utf-8', 'utf8', 'us-ascii'])
const DIGITS = /^[0-9]+$/

/**
 * The bytes of the body. Bytes or text that the host's own parser left are used. What the
 * connection fails with comes through as it is.
 * @throws {HttpError} `body_too_large` (413; by Content-Length before anything is read),
 * `unsupported_content_coding` (415), `digest_mismatch` (400)
 */
export async function readBytes(request: HttpRequest, options: ReadBytesOptions): Promise<Uint8Array> {
  checkNames('readBytes', options, BYTES)
  const { maxBodyBytes } = options
  checkLength(request.headers, maxBodyBytes)
  const parsed = request.body.parsed?.value
  const left = typeof parsed === 'string' ? Buffer.from(parsed) : parsed
  if (left instanceof Uint8Array) return checkedAsSent(request.headers, capped(left.byteLength > maxBodyBytes ? undefined : left, maxBodyBytes))
  checkCoding(request.headers)
  return capped(await request.body.bytes(maxBodyBytes), maxBodyBytes)
}

/**
 * The body as JSON. A value that the host's parser left is used at once, without a promise. Its
 * keys are checked like ours, and its size as JSON where Content-Length does not tell it; text that
 * it left stays a string, bytes are parsed. A body without Content-Type is refused: a page of
 * another site can make a browser send one with its user's cookies, without asking the server
 * beforehand. `charset` may only be UTF-8 or US-ASCII. Errors are thrown where the answer is
 * direct, else rejected.
 * @throws {HttpError} `body_too_large` (413), `unsupported_media_type` and
 * `unsupported_content_coding` (415), and with 400 `missing_body`, `malformed_json` (says where),
 * `unsafe_key` (`__proto__` and its kind), `nested_too_deep`, `digest_mismatch`
 */
export function readJson(request: HttpRequest, options: ReadJsonOptions): MaybePromise<unknown> {
  checkNames('readJson', options, JSON_BODY)
  const { maxBodyBytes, mediaTypes } = options
  checkLength(request.headers, maxBodyBytes)
  checkJsonType(request.headers, mediaTypes)
  const { parsed } = request.body
  const isTyped = request.headers['content-type'] !== undefined
  if (!isTyped && parsed?.value !== undefined) throw unsupported(mediaTypes)
  if (parsed?.value instanceof Uint8Array) {
    const { value } = parsed
    return parseJsonBytes(checkedAsSent(request.headers, capped(value.byteLength > maxBodyBytes ? undefined : value, maxBodyBytes)))
  }
  if (parsed !== undefined) return usable(parsed.value, request.headers, maxBodyBytes)
  checkCoding(request.headers)
  return request.body.bytes(maxBodyBytes).then((bytes) => {
    const all = capped(bytes, maxBodyBytes)
    // Not every binding and version of HTTP announces a body.
    if (!isTyped && all.byteLength > 0) throw unsupported(mediaTypes)
    return parseJsonBytes(all)
  })
}

/**
 * Bytes that the host's parser left: they are what was sent, unless there was a content coding to
 * undo.
 */
function checkedAsSent(headers: RequestHeaders, bytes: Uint8Array): Uint8Array {
  return isCoded(headers) ? bytes : ContentDigest.of(headers)?.check(bytes) ?? bytes
}

function usable(value: unknown, headers: RequestHeaders, maxBodyBytes: number): unknown {
  if (value === undefined) throw httpError('missing_body')
  if (hasUnsafeKey(value)) throw httpError('unsafe_key')
  if (isTooDeep(value)) throw httpError('nested_too_deep')
  if (isParsedLarger(value, headers, maxBodyBytes)) capped(undefined, maxBodyBytes)
  return value
}

/**
 * Whether what the host's parser left was larger than `maxBodyBytes`. Content-Length says so, unless
 * the body was sent in chunks or in a content coding: then the value is measured. It must not be
 * nested too deeply.
 */
export function isParsedLarger(value: unknown, headers: RequestHeaders, maxBodyBytes: number): boolean {
  const length = headers['content-length']
  if (typeof length === 'string' && DIGITS.test(length) && !isCoded(headers)) return Number(length) > maxBodyBytes
  return typeof value === 'string' ? Buffer.byteLength(value) > maxBodyBytes : isJsonLarger(value, maxBodyBytes)
}

function capped(bytes: Uint8Array | undefined, maxBodyBytes: number): Uint8Array {
  if (bytes === undefined) throw httpError('body_too_large', { message: `The body is larger than ${maxBodyBytes} bytes.` })
  return bytes
}

function checkLength(headers: RequestHeaders, maxBodyBytes: number): void {
  const length = headers['content-length']
  if (typeof length === 'string' && DIGITS.test(length) && Number(length) > maxBodyBytes) capped(undefined, maxBodyBytes)
}

/**
 * Throws `unsupported_media_type` unless the body is JSON by its Content-Type, or of one of
 * `mediaTypes`; see `readJson`. Without Content-Type, only a request that announces no body passes.
 */
export function checkJsonType(headers: RequestHeaders, mediaTypes?: readonly string[]): void {
  const field = headers['content-type']
  if (field === 'application/json' && mediaTypes === undefined) return
  if (field === undefined && !announcesBody(headers)) return
  const mediaType = typeof field === 'string' ? parseMediaType(field) : undefined
  const charset = mediaType?.params.get('charset')
  const known = mediaType !== undefined && (mediaTypes?.includes(mediaType.type) ?? isJson(mediaType.type))
  if (known && (charset === undefined || CHARSETS.has(charset.toLowerCase()))) return
  throw unsupported(mediaTypes)
}

/** Whether the head says that bytes follow. */
export function announcesBody(headers: RequestHeaders): boolean {
  const length = headers['content-length']
  return headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0')
}

/** The 415 of a body that says it is something else, or nothing. */
export function unsupported(mediaTypes: readonly string[] = ['application/json']): HttpError {
  // RFC 9110 sections 12.5.1 and 15.5.16: Accept in a response says what would be read.
  const message = `The Content-Type must be ${mediaTypes.join(' or ')}.`
  return httpError('unsupported_media_type', { message, headers: { accept: mediaTypes.join(', ') } })
}

function isJson(type: string): boolean {
  return type === 'application/json' || type.endsWith('+json')
}

function isCoded({ 'content-encoding': field }: RequestHeaders): boolean {
  return field !== undefined && field !== '' && !(typeof field === 'string' && field.toLowerCase() === 'identity')
}

function checkCoding(headers: RequestHeaders): void {
  if (!isCoded(headers)) return
  throw httpError('unsupported_content_coding', { headers: { 'accept-encoding': 'identity' } })
}
