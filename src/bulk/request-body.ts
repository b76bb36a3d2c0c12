import { checkJsonType, unsupported } from '../http/body/body.js'
import { requestCoding, type DecodeOptions } from '../http/body/decode.js'
import { jsonTextOf, parseJson } from '../http/body/json.js'
import { httpError } from '../http/errors.js'
import type { HttpRequest } from '../http/exchange.js'
import type { ArrayPosition } from '../json-array/array-position.js'
import { readElements } from '../json-array/array-reader.js'
import { isExact } from '../json-array/json-checks.js'
import { Gathered } from '../runtime/text.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import type { ParsedBatch } from './batch.js'
import { itemsOf } from './items-of.js'
import type { BulkSettings } from './settings.js'

/**
 * The items of a body, which can be read any number of times. A small body is parsed as a whole, in
 * one batch. The batches of a larger one are parsed again whenever they are read.
 */
export type BulkBody = WholeBody | LargeBody

/** A body in one batch. */
export interface WholeBody {
  readonly whole: ParsedBatch
}

/** A body that is read in batches. */
export interface LargeBody {
  readonly whole?: undefined
  /** Reads the batches, from a place on at which an earlier reader has begun a batch. */
  readonly open: (from?: ArrayPosition) => AsyncGenerator<ParsedBatch>
}

/** Opens the decoded bytes of a body at an offset. */
export type OpenDecoded = (byte: number) => MaybePromise<AsyncIterable<Uint8Array>>

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

/** Returns true if the host's body parser has left a value, and not text or bytes. */
export function isValue(parsed: HttpRequest['body']['parsed']): boolean {
  if (parsed === undefined) return false
  return typeof parsed.value !== 'string' && !(parsed.value instanceof Uint8Array)
}

/** Reads a body: as a whole if it has up to `streamAboveBytes` bytes, else in batches. */
export async function readBody(settings: BodySettings, open: OpenDecoded): Promise<BulkBody> {
  const first = new Gathered()
  for await (const piece of await open(0)) {
    first.add(piece)
    if (first.size > settings.streamAboveBytes) return largeBody(settings, open)
  }
  return bodyOfBytes(settings, first.bytes)
}

/** Returns a body that is read in batches. */
export function largeBody(settings: BodySettings, open: OpenDecoded): LargeBody {
  return { open: (from) => readBatches(settings, open, from) }
}

async function* readBatches(
  settings: BodySettings, open: OpenDecoded, from: ArrayPosition | undefined,
): AsyncGenerator<ParsedBatch, void, undefined> {
  const { path, otherMembers, maxItems: maxElements, maxItemBytes: maxElementBytes } = settings
  const alone = otherMembers === 'refuse'
  const bytes = await open(from?.byte ?? 0)
  yield* readElements(bytes, { path, alone, maxElements, maxElementBytes, from })
}

/** Returns the batches of a body, from a place on. */
export function batchesOf(
  body: BulkBody, from?: ArrayPosition,
): Iterable<ParsedBatch> | AsyncIterable<ParsedBatch> {
  return body.whole === undefined ? body.open(from) : [body.whole]
}

/** Size of a body that was read to its end. */
export interface BodySize {
  /** Number of items. */
  readonly items: number
  /** Bytes of its largest batch. */
  readonly batchBytes: number
}

/**
 * Reads a large body to its end, so that its syntax, its limits and the number of its items are
 * known before anything is written.
 *
 * @throws {HttpError} The body is not a list of items, or too large.
 */
export async function measure(body: LargeBody): Promise<BodySize> {
  let items = 0
  let batchBytes = 0
  for await (const batch of body.open()) {
    items += batch.items.length
    batchBytes = Math.max(batchBytes, batch.bytes ?? 0)
  }
  if (items === 0) throw httpError('empty_batch')
  return { items, batchBytes }
}

/** Parses a whole body. Does not limit its depth: an item that is too deep fails alone. */
export function bodyOfBytes(settings: BodySettings, bytes: Uint8Array): WholeBody {
  const text = jsonTextOf(bytes)
  return bodyOfValue(settings, parseJson(text, Infinity), isExact(text))
}

/**
 * Returns the items of a parsed body.
 *
 * @param exact - all values are as they were sent; see `inexactValues`
 */
export function bodyOfValue(settings: BodySettings, body: unknown, exact: boolean): WholeBody {
  const { maxItems } = settings
  const items = itemsOf(settings, body)
  if (items.length === 0) throw httpError('empty_batch')
  if (items.length > maxItems) {
    throw httpError('body_too_large', { message: `The body has more than ${maxItems} items.` })
  }
  return { whole: { start: 0, items, exact } }
}
