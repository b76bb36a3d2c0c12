import { checkJsonType, readJson, unsupported } from '../http/body/body.js'
import { decodeBody, requestCoding, type DecodeOptions } from '../http/body/decode.js'
import { jsonTextOf, parseJson } from '../http/body/json-text.js'
import { httpError } from '../http/errors.js'
import type { HttpRequest } from '../http/exchange.js'
import type { ArrayPosition } from '../json-array/array-position.js'
import { readElements } from '../json-array/array-reader.js'
import { isExact } from '../json-array/json-checks.js'
import { Gathered } from '../runtime/byte-buffer.js'
import type { ParsedBatch } from './batch.js'
import { itemsOf } from './items-of.js'
import type { BulkSettings } from './settings.js'

/**
 * The items of a request. A small body is read as a whole, in one batch, so that duplicates are
 * found before anything is written. A larger one is streamed.
 */
export type BulkBody =
  | { readonly whole: true, readonly batches: readonly [ParsedBatch] }
  | {
    readonly whole: false
    readonly batches: AsyncGenerator<ParsedBatch>
    /**
     * Closes the source if `batches` is not read: a generator that has not started closes nothing.
     */
    readonly close: () => unknown
  }

type BodySettings = Pick<BulkSettings<never>,
  'items' | 'path' | 'otherMembers' | 'maxItems' | 'maxItemBytes' | 'streamAboveBytes'
  | 'maxBodyBytes' | 'maxDecodedBytes' | 'maxRatio'>

/**
 * Checks the header fields of a request.
 *
 * @throws {HttpError} `unsupported_media_type`, `unsupported_content_coding`, or `body_too_large`
 * by its Content-Length.
 */
export function checkHead({ maxBodyBytes }: BodySettings, { headers, body }: HttpRequest): void {
  checkJsonType(headers)
  // Some bindings and versions of HTTP do not announce a body: only a length of 0 means none.
  const { 'content-type': type, 'content-length': length } = headers
  if (type === undefined && length !== '0') throw unsupported()
  if (body.parsed === undefined) requestCoding(headers)
  if (Number(length) > maxBodyBytes) {
    throw httpError('body_too_large', { message: `The body is larger than ${maxBodyBytes} bytes.` })
  }
}

/** Limits of the decoder, from the settings. */
export function decodeLimits(settings: BodySettings): Required<DecodeOptions> {
  const { maxBodyBytes, maxDecodedBytes, maxRatio } = settings
  return { maxBodyBytes, maxDecodedBytes, maxRatio }
}

/** Reads the body of a request. Rejects with errors of 400, 413 and 415. */
export async function readBody(settings: BodySettings, request: HttpRequest): Promise<BulkBody> {
  const { body: { parsed } } = request
  const limits = decodeLimits(settings)
  if (isValue(parsed)) {
    return bodyOfValue(
      settings, await readJson(request, { maxBodyBytes: limits.maxBodyBytes }), false,
    )
  }
  if (!isSmall(settings, request)) return bodyOfPieces(settings, decodeBody(request, limits))
  // Content-Length says that there are no more bytes.
  const bytes = await request.body.bytes(settings.streamAboveBytes)
  return bodyOfBytes(settings, bytes ?? new Uint8Array())
}

/** Returns true if the host's body parser has left a value, and not text or bytes. */
export function isValue(parsed: HttpRequest['body']['parsed']): boolean {
  if (parsed === undefined) return false
  return typeof parsed.value !== 'string' && !(parsed.value instanceof Uint8Array)
}

/** Returns true if the body is known to be small, and has no content coding. */
function isSmall({ streamAboveBytes }: BodySettings, { headers, body }: HttpRequest): boolean {
  const length = headers['content-length']
  if (body.parsed !== undefined || typeof length !== 'string') return false
  return Number(length) <= streamAboveBytes && requestCoding(headers) === 'identity'
}

/** Reads a body that arrives in pieces: as a whole if it is small, else as a stream. */
export async function bodyOfPieces(
  settings: BodySettings, pieces: AsyncIterable<Uint8Array>,
): Promise<BulkBody> {
  const source = pieces[Symbol.asyncIterator]()
  const first = new Gathered()
  while (first.size <= settings.streamAboveBytes) {
    const step = await source.next()
    if (step.done === true) return bodyOfBytes(settings, first.bytes)
    first.add(step.value)
  }
  const batches = elementsOf(settings, joined(first.bytes, source))
  return { whole: false, batches, close: () => source.return?.() }
}

/** Reads the rest of a body, from a place at which an earlier reader of it has begun a batch. */
export function bodyFrom(
  settings: BodySettings, from: ArrayPosition, rest: AsyncIterable<Uint8Array>,
): BulkBody {
  const source = rest[Symbol.asyncIterator]()
  const batches = elementsOf(settings, joined(new Uint8Array(), source), from)
  return { whole: false, batches, close: () => source.return?.() }
}

function elementsOf(
  settings: BodySettings, source: AsyncIterable<Uint8Array>, from?: ArrayPosition,
): AsyncGenerator<ParsedBatch> {
  const { path, otherMembers, maxItems: maxElements, maxItemBytes: maxElementBytes } = settings
  const alone = otherMembers === 'refuse'
  return readElements(source, { path, alone, maxElements, maxElementBytes, from })
}

const PART_BYTES = 65_536

async function* joined(
  first: Uint8Array, rest: AsyncIterator<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    for (let at = 0; at < first.byteLength; at += PART_BYTES) {
      yield first.subarray(at, at + PART_BYTES)
    }
    for (let step = await rest.next(); step.done !== true; step = await rest.next()) {
      yield step.value
    }
  } finally {
    await rest.return?.()
  }
}

/** Parses a whole body. Does not limit its depth: an item that is too deep fails alone. */
function bodyOfBytes(settings: BodySettings, bytes: Uint8Array): BulkBody {
  const text = jsonTextOf(bytes)
  return bodyOfValue(settings, parseJson(text, Infinity), isExact(text))
}

function bodyOfValue(settings: BodySettings, body: unknown, exact: boolean): BulkBody {
  const { maxItems } = settings
  const items = itemsOf(settings, body)
  if (items.length === 0) throw httpError('empty_batch')
  if (items.length > maxItems) {
    throw httpError('body_too_large', { message: `The body has more than ${maxItems} items.` })
  }
  return { whole: true, batches: [{ start: 0, items, exact }] }
}
