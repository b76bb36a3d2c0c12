import { ContentDigest, isCoded, isStillCoded, readContentLength } from '../headers/digests.js'
import { bodyTooLarge, httpError, mustBeIdentity, type HttpError } from '../errors.js'
import type { HttpRequest, RequestHeaders } from '../exchange.js'
import { Json } from '../../runtime/json.js'
import { after, type MaybePromise } from '../../runtime/maybe-promise.js'
import { checkExact, inexactParsed, isExact } from './exact-json.js'
import { isTooDeep, isJsonLarger, hasUnsafeKey, jsonOfBytes } from './json.js'
import { parseMediaType } from '../headers/accept.js'
import { checkNames } from '../../runtime/option-names.js'
import { countingBody, SMALL_BYTES } from './counted-body.js'

/** Options of `readBytes`. */
export interface ReadBytesOptions {
  /** Maximum size of the body, in bytes as sent. */
  readonly maxBodyBytes: number
}

/** Options of `readJson`. */
export interface ReadJsonOptions extends ReadBytesOptions {
  /** Media types to read, lower-case. Default: `application/json` and all that end in `+json`. */
  readonly mediaTypes?: readonly string[]
}

const BYTES = { maxBodyBytes: 0 } satisfies Record<keyof ReadBytesOptions, 0>
const JSON_BODY = { maxBodyBytes: 0, mediaTypes: 0 } satisfies Record<keyof ReadJsonOptions, 0>
const CHARSETS = new Set(['utf-8', 'utf8', 'us-ascii'])

/**
 * Reads the body as bytes, even if your framework has read it as bytes or a string.
 * @example
 * const csv = await readBytes(request, { maxBodyBytes: 1_048_576 })
 * @throws {HttpError} `body_too_large` (413), `unsupported_content_coding` (415), `digest_mismatch`
 * (400). If the body may be larger than 64 KiB also `too_many_requests` (429) and `overloaded`
 * (503): other bodies take the memory
 */
export async function readBytes(
  request: HttpRequest, options: ReadBytesOptions,
): Promise<Uint8Array> {
  checkNames('readBytes', options, BYTES)
  const { maxBodyBytes } = options
  checkWhole(request.headers)
  checkLength(request.headers, maxBodyBytes)
  const parsed = request.body.parsed?.value
  const left = typeof parsed === 'string' ? Buffer.from(parsed) : parsed
  if (left instanceof Uint8Array) {
    if (left.byteLength > maxBodyBytes) throw bodyTooLarge(maxBodyBytes)
    return checkedAsSent(request.headers, left, parsed)
  }
  if (isCoded(request.headers)) throw mustBeIdentity()
  const bytes = await countingBody(({ body }) => body.bytes(maxBodyBytes))(request)
  if (bytes === undefined) throw bodyTooLarge(maxBodyBytes)
  return bytes
}

/**
 * Reads the body as JSON. A value that your framework has parsed is returned without a promise,
 * after the same checks. A body without Content-Type is rejected, because a page of another site
 * can send one with the user's cookies. `charset` must be UTF-8 or US-ASCII. Lost digits of a
 * fraction cannot be seen in a value that your framework has parsed. Text that your framework has
 * read is either JSON, or a string that was JSON. Content-Length shows the difference; without this
 * header, the text is rejected.
 * @example
 * const draft = await readJson(request, { maxBodyBytes: 65_536 })
 * @throws {HttpError} `body_too_large` (413), `unsupported_media_type` and
 * `unsupported_content_coding` (415), and with 400 `missing_body`, `malformed_json` (with the
 * place), `unsafe_key`, `nested_too_deep`, `inexact_value`, `digest_mismatch`, `invalid_header`. If the body may be larger than 64 KiB
 * also `too_many_requests` (429) and `overloaded` (503): other bodies take the memory
 */
export function readJson(request: HttpRequest, options: ReadJsonOptions): MaybePromise<unknown> {
  checkNames('readJson', options, JSON_BODY)
  return after(readJsonBody(request, options), ({ value }) => value)
}

/** @param checksParsed - checks the values of a body that the framework has parsed, too */
export function readJsonBody(
  request: HttpRequest, { maxBodyBytes, mediaTypes }: ReadJsonOptions, checksParsed = true,
): MaybePromise<Json> {
  const length = checkLength(request.headers, maxBodyBytes)
  checkJsonType(request.headers, mediaTypes)
  const { parsed } = request.body
  const isTyped = request.headers['content-type'] !== undefined
  if (!isTyped && parsed?.value !== undefined) throw unsupported(mediaTypes)
  const left = typeof parsed?.value === 'string'
    ? textAsSent(request.headers, parsed.value, maxBodyBytes) : parsed?.value
  if (left instanceof Uint8Array) {
    if (left.byteLength > maxBodyBytes) throw bodyTooLarge(maxBodyBytes)
    return jsonOfBytes(checkedAsSent(request.headers, left, left))
  }
  if (parsed !== undefined) {
    const value = usable(parsed.value, request.headers, maxBodyBytes)
    if (checksParsed && !isExact(value)) checkExact(inexactParsed(value))
    return Json.of(value)
  }
  if (isCoded(request.headers)) throw mustBeIdentity()
  const parse = (bytes: Uint8Array | undefined): Json => {
    if (bytes === undefined) throw bodyTooLarge(maxBodyBytes)
    // Not every binding and version of HTTP announces a body.
    if (!isTyped && bytes.byteLength > 0) throw unsupported(mediaTypes)
    return jsonOfBytes(bytes)
  }
  if (length <= SMALL_BYTES) return request.body.bytes(maxBodyBytes).then(parse)
  return countingBody(async ({ body }, counted) => {
    const bytes = await body.bytes(maxBodyBytes)
    await counted?.waitToParse(bytes?.byteLength ?? 0, request)
    return parse(bytes)
  })(request)
}

/** @param left - what your framework has left: the bytes, or the text from which they were made */
function checkedAsSent(headers: RequestHeaders, bytes: Uint8Array, left: unknown): Uint8Array {
  if (isStillCoded(headers, left)) throw mustBeIdentity()
  return ContentDigest.ofParsed(headers, left)?.check(bytes) ?? bytes
}

/**
 * Returns the bytes of a body that your framework has read as text; `undefined` for a JSON string
 * that it has parsed. The length that was sent shows the difference, because JSON adds two quotes.
 */
function textAsSent(
  headers: RequestHeaders, left: string, maxBodyBytes: number,
): Uint8Array | undefined {
  const bytes = Buffer.from(left)
  if (bytes.byteLength > maxBodyBytes) throw bodyTooLarge(maxBodyBytes)
  if (isCoded(headers)) throw mustBeIdentity()
  const length = readContentLength(headers)
  if (length === bytes.byteLength) return bytes
  if (length !== undefined && Buffer.byteLength(JSON.stringify(left)) <= length) return undefined
  throw httpError('invalid_header', {
    message: 'Send the body with a Content-Length, and without a byte order mark.',
  })
}

function usable(value: unknown, headers: RequestHeaders, maxBodyBytes: number): unknown {
  if (value === undefined || headers['content-length'] === '0') throw httpError('missing_body')
  if (hasUnsafeKey(value)) throw httpError('unsafe_key')
  if (isTooDeep(value)) throw httpError('nested_too_deep')
  if (isParsedLarger(value, headers, maxBodyBytes)) throw bodyTooLarge(maxBodyBytes)
  return value
}

/**
 * Returns true if a body that your framework has parsed is too large, by Content-Length or as JSON.
 */
export function isParsedLarger(
  value: unknown, headers: RequestHeaders, maxBodyBytes: number,
): boolean {
  const length = readContentLength(headers)
  if (length !== undefined && !isCoded(headers)) return length > maxBodyBytes
  if (typeof value === 'string') return Buffer.byteLength(value) > maxBodyBytes
  return isJsonLarger(value, maxBodyBytes)
}

/**
 * Rejects a body that its sender calls a part, because it would replace or create the whole.
 * @throws {HttpError} 400 `invalid_header`: the request has Content-Range (RFC 9110 section 14.5)
 */
export function checkWhole(headers: RequestHeaders): void {
  if (headers['content-range'] === undefined) return
  throw httpError('invalid_header', {
    message: 'Content-Range is not supported in a request; send all of the content, without it.',
  })
}

function checkLength(headers: RequestHeaders, maxBodyBytes: number): number {
  const length = Number(headers['content-length'])
  if (length > maxBodyBytes) throw bodyTooLarge(maxBodyBytes)
  return length
}

/** Throws 415 unless the Content-Type is JSON or one of `mediaTypes`, or no body is announced. */
export function checkJsonType(headers: RequestHeaders, mediaTypes?: readonly string[]): void {
  checkWhole(headers)
  const header = headers['content-type']
  if (header === 'application/json' && mediaTypes === undefined) return
  if (header === undefined && !announcesBody(headers)) return
  const mediaType = typeof header === 'string' ? parseMediaType(header) : undefined
  const charset = mediaType?.params.get('charset')
  const type = mediaType?.type
  const known = type !== undefined && (mediaTypes?.includes(type) ?? isJson(type))
  if (known && (charset === undefined || CHARSETS.has(charset.toLowerCase()))) return
  throw unsupported(mediaTypes)
}

export function announcesBody(headers: RequestHeaders): boolean {
  const length = headers['content-length']
  return headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0')
}

export function unsupported(mediaTypes: readonly string[] = ['application/json']): HttpError {
  const accept = mediaTypes.join(', ')
  const message = `The Content-Type must be ${mediaTypes.join(' or ')}.`
  // RFC 9110 sections 12.5.1 and 15.5.16: Accept in a response says which types are read.
  return httpError('unsupported_media_type', { message, headers: { accept } })
}

function isJson(type: string): boolean {
  return type === 'application/json' || type.endsWith('+json')
}
