import { checkJsonType, unsupported } from '../http/body/body.js'
import { bodyCoding } from '../http/body/decode.js'
import { jsonTextOf, parseJson, isJsonObject } from '../http/body/json.js'
import { bodyTooLarge, httpError, type HttpError } from '../http/errors.js'
import type { HttpRequest } from '../http/exchange.js'
import { type ArrayPosition, UNKNOWN_MEMBER } from '../json-array/array-position.js'
import { readElements, type ElementOptions } from '../json-array/array-reader.js'
import { hasWellFormedStrings } from '../json-array/element-reader.js'
import { readStart, withRest } from '../runtime/text.js'
import { nextTurn } from '../runtime/timers.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { childPointer, isArrayIndex } from '../schema/pointer.js'
import type { Block } from '../records/batch.js'
import type { BulkSettings } from './options.js'

/** The items of a body, which can be read any number of times. */
export type BulkBody = WholeBody | LargeBody

export interface WholeBody {
  readonly whole: Block<never>
  /** Number of items. */
  readonly items: number
}

export interface LargeBody {
  readonly whole?: undefined
  readonly open: (from?: ArrayPosition) => AsyncGenerator<Block<ArrayPosition>>
  /** Reads the body to its end, so that it is checked before anything is written. */
  readonly measure: () => Promise<BodySize>
}

export interface BodySize {
  readonly items: number
  /** Size of the largest batch, in bytes. */
  readonly batchBytes: number
}

export type OpenDecoded = (byte: number) => MaybePromise<AsyncIterable<Uint8Array>>

type BodySettings = Pick<BulkSettings<never>,
  'items' | 'path' | 'otherMembers' | 'maxItems' | 'maxItemBytes' | 'streamAboveBytes'
  | 'maxBodyBytes'>

/** Checks the headers. Returns the content coding of the body. */
export function checkHead({ maxBodyBytes }: BodySettings, request: HttpRequest<unknown>): string {
  const { headers } = request
  checkJsonType(headers)
  // Some bindings and versions of HTTP do not announce a body: only a length of 0 means none.
  const { 'content-type': type, 'content-length': length } = headers
  if (type === undefined && length !== '0') throw unsupported()
  const coding = bodyCoding(request)
  if (Number(length) > maxBodyBytes) throw bodyTooLarge(maxBodyBytes)
  return coding
}

/** Returns true if your framework's body parser has left a value, and not text or bytes. */
export function isValue(parsed: HttpRequest['body']['parsed']): boolean {
  if (parsed === undefined) return false
  return typeof parsed.value !== 'string' && !(parsed.value instanceof Uint8Array)
}

/** Reads a body: as a whole if it has up to `streamAboveBytes` bytes, else in batches. */
export async function readBody(settings: BodySettings, open: OpenDecoded): Promise<BulkBody> {
  const pieces = (await open(0))[Symbol.asyncIterator]()
  const { bytes, isWhole } = await readStart(pieces, settings.streamAboveBytes)
  if (isWhole) return bodyOfBytes(settings, bytes)
  await pieces.return?.()
  return largeBody(settings, open)
}

export function largeBody(settings: BodySettings, open: OpenDecoded): LargeBody {
  return {
    open: (from) => readBlocks(settings, open, from),
    measure: async () => {
      // Yields before and after it, so that the event loop is not blocked by two readings in a row.
      await nextTurn()
      const size = await measure(settings, await open(0))
      await nextTurn()
      return size
    },
  }
}

/** A body that was read once. */
export type PassedBody = Pick<WholeBody, 'items'> & Partial<WholeBody>

/** Checks a body and counts its items, while its bytes pass. */
export async function readPassing(
  settings: BodySettings, decoded: AsyncIterable<Uint8Array>,
): Promise<PassedBody> {
  const pieces = decoded[Symbol.asyncIterator]()
  const { bytes, isWhole } = await readStart(pieces, settings.streamAboveBytes)
  return isWhole ? bodyOfBytes(settings, bytes) : measure(settings, withRest(bytes, pieces))
}

async function* readBlocks(
  settings: BodySettings, open: OpenDecoded, from: ArrayPosition | undefined,
): AsyncGenerator<Block<ArrayPosition>, void, undefined> {
  const source = await open(from?.byte ?? 0)
  const elements = readElements(source, { ...elementOptions(settings), from })
  for await (const { start, items: records, wellFormed, place, bytes } of elements) {
    yield { records, first: start + 1, last: start + records.length, wellFormed, place, bytes }
  }
}

async function measure(
  settings: BodySettings, decoded: AsyncIterable<Uint8Array>,
): Promise<BodySize> {
  let items = 0
  let batchBytes = 0
  const elements = readElements(decoded, { ...elementOptions(settings), countOnly: true })
  for await (const { count, bytes } of elements) {
    items += count
    batchBytes = Math.max(batchBytes, bytes)
  }
  if (items === 0) throw httpError('empty_batch')
  return { items, batchBytes }
}

function elementOptions(settings: BodySettings): ElementOptions {
  const { path, otherMembers, maxItems: maxElements, maxItemBytes: maxElementBytes } = settings
  return { path, alone: otherMembers === 'refuse', maxElements, maxElementBytes }
}

/** Parses a whole body. Does not limit its depth: an item that is too deep fails alone. */
export function bodyOfBytes(settings: BodySettings, bytes: Uint8Array): WholeBody {
  const text = jsonTextOf(bytes)
  return bodyOfValue(settings, parseJson(text, Infinity), hasWellFormedStrings(text))
}

export function bodyOfValue(settings: BodySettings, body: unknown, wellFormed: boolean): WholeBody {
  const { maxItems } = settings
  const items = itemsOf(settings, body)
  if (items.length === 0) throw httpError('empty_batch')
  if (items.length > maxItems) {
    throw httpError('body_too_large', { message: `The body has more than ${maxItems} items.` })
  }
  return { whole: { records: items, last: items.length, wellFormed, bytes: 0 }, items: items.length }
}

function itemsOf({ items, path, otherMembers }: BodySettings, body: unknown): unknown[] {
  let value = body
  let pointer = ''
  for (const key of path) {
    const child = childPointer(pointer, key)
    const isList = Array.isArray(value) && isArrayIndex(key)
    if (!isList && !isJsonObject(value)) throw notFound(items, child, 'is required')
    const container = value as Readonly<Record<string, unknown>>
    if (!Object.hasOwn(container, key)) throw notFound(items, child, 'is required')
    if (otherMembers === 'refuse') {
      const other = Object.keys(container).find((each) => each !== key)
      if (other !== undefined) throw unknown(items, childPointer(pointer, other))
    }
    value = container[key]
    pointer = child
  }
  if (!Array.isArray(value)) throw notFound(items, pointer, 'must be array')
  return value
}

function notFound(items: string, pointer: string, message: string): HttpError {
  return httpError('invalid_input', {
    message: `${items === '' ? 'The body' : `The value at ${items}`} must be an array.`,
    details: [{ pointer, message }],
  })
}

function unknown(items: string, pointer: string): HttpError {
  return httpError('invalid_input', {
    message: `The body must have nothing beside the array at ${items}.`,
    details: [{ pointer, message: UNKNOWN_MEMBER }],
  })
}
