import { createHash } from 'node:crypto'
import { readJsonBody } from '../http/body/body.js'
import { CountedBytes, HEAP_PER_BYTE, PARSED, DecoderMemory, memoryRefused } from '../http/body/counted-body.js'
import { countedAs } from '../http/requester.js'
import { httpError } from '../http/errors.js'
import type { HttpRequest, HttpResponse } from '../http/exchange.js'
import { SharedLimit } from '../runtime/shared-limit.js'
import { empty } from '../http/respond.js'
import { decodedFrom } from '../records/spool.js'
import {
  bodyOfBytes, bodyOfValue, isValue, readBody, type BulkBody, type WholeBody,
} from './body.js'
import type { BulkSettings } from './options.js'

/**
 * Bodies up to this size are read at once and are not counted while they arrive, because a copy in
 * pieces costs a bulk item 9 %. In bytes.
 */
const READ_AT_ONCE_BYTES = 262_144

/** The body of a synchronous request. It was read to its end before anything is written. */
export interface DirectBody {
  readonly body: BulkBody
  readonly items: number
  readonly identity: () => unknown
}

export interface DirectReader {
  /** Content coding of the body. */
  readonly coding: string
  readonly work: (body: DirectBody) => Promise<HttpResponse>
  /** Responds to a body that is too large for a synchronous request, from its bytes as sent. */
  readonly spool: ((bytes: AsyncIterable<Uint8Array>) => Promise<HttpResponse>) | undefined
}

/** Reads the body of a synchronous request into memory, to its end, and checks its limits. */
export async function readDirect<T>(
  settings: BulkSettings<T>, request: HttpRequest<unknown>, reader: DirectReader,
): Promise<HttpResponse> {
  const { maxBodyBytes, maxDirectBytes, streamAboveBytes } = settings
  const { body: { parsed }, headers } = request
  if (isValue(parsed)) {
    // An item with an inexact value fails alone.
    const { value } = await readJsonBody(request, { maxBodyBytes }, false)
    return reader.work(wholeDirect(bodyOfValue(settings, value, false)))
  }
  const { coding } = reader
  const header = parsed === undefined ? headers['content-length'] : undefined
  const length = typeof header === 'string' ? Number(header) : NaN
  const maxAtOnce = Math.min(READ_AT_ONCE_BYTES, streamAboveBytes, maxDirectBytes)
  if (coding === 'identity' && length <= maxAtOnce) {
    // Content-Length says that there are no more bytes.
    const bytes = await request.body.bytes(READ_AT_ONCE_BYTES) ?? new Uint8Array()
    const body = wholeDirect(bodyOfBytes(settings, bytes))
    return await withParsed(request, bytes.byteLength, () => reader.work(body))
  }
  const spool = reader.spool ?? (() => { throw largerThanDirect(settings) })
  if (length > maxDirectBytes) return spool(request.body.stream())
  const source = request.body.stream()[Symbol.asyncIterator]()
  const held = new CountedBytes(request)
  const decoder = coding === 'identity' ? undefined : new DecoderMemory(request)
  try {
    const isWhole = await held.read(source, Math.min(maxBodyBytes, maxDirectBytes))
    if (!isWhole) return await spool(joined(held, source))
    return await respondToHeld(settings, reader, { request, held, decoder })
  } finally {
    decoder?.release()
    held.release()
    // The source may be waiting for its client, so this may take long.
    source.return?.().catch(() => undefined)
  }
}

interface Arrived {
  readonly request: HttpRequest<unknown>
  readonly held: CountedBytes
  /**
   * Memory for one decoder of the body. Kept until the response is made, because a large body is
   * decoded again while its items are written, and must not be rejected then.
   */
  readonly decoder: DecoderMemory | undefined
}

async function respondToHeld<T>(
  settings: BulkSettings<T>, reader: DirectReader, { request, held, decoder }: Arrived,
): Promise<HttpResponse> {
  const { coding } = reader
  const tooLarge = largerThanDirect(settings)
  let decodedBytes = 0
  const open = async (byte: number): Promise<AsyncIterable<Uint8Array>> => {
    const { limits } = settings
    const coded = { coding, open: (start: number) => held.open(start) }
    const bytes = await decodedFrom(coded, byte, limits, decoder)
    return counted(bytes, (size) => {
      decodedBytes = size
      if (size > settings.maxDirectBytes) throw tooLarge
    })
  }
  let arrived: Pick<DirectBody, 'body' | 'items'> & { readonly bytes: number } | undefined
  try {
    // One after the other: a batch with a large item takes much memory while it is parsed.
    arrived = await inTurn(request, async () => {
      const body = await readBody(settings, open)
      if (body.whole) return { body, items: body.items, bytes: decodedBytes }
      const { items, batchBytes } = await body.measure()
      return { body, items, bytes: batchBytes }
    })
  } catch (error) {
    if (error !== tooLarge || reader.spool === undefined) throw error
    decoder?.release()
    return reader.spool(held.open())
  }
  if (arrived === undefined) return empty(503)
  const { body, items, bytes } = arrived
  if (body.whole) decoder?.release()
  return withParsed(request, bytes, () => reader.work(body.whole
    ? wholeDirect(body)
    : { body, items, identity: () => ({ coding, sha256: sha256Of(held) }) }))
}

function wholeDirect(body: WholeBody): DirectBody {
  const { records } = body.whole
  return { body, items: records.length, identity: () => records }
}

function largerThanDirect<T>({ maxBodyBytes, maxDirectBytes }: BulkSettings<T>) {
  const bytes = Math.min(maxBodyBytes, maxDirectBytes)
  return httpError('body_too_large', {
    message: `The body is larger than ${bytes} bytes. Nothing was written; send fewer items.`,
  })
}

/** Yields the stored bytes, releases them, and then yields the rest of their source. */
async function* joined(
  held: CountedBytes, rest: AsyncIterator<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  yield* held.open()
  held.release()
  for (let step = await rest.next(); step.done !== true; step = await rest.next()) yield step.value
}

function sha256Of(held: CountedBytes): string {
  const hash = createHash('sha256')
  for (const piece of held.pieces()) hash.update(piece)
  return hash.digest('hex')
}

async function* counted(
  source: AsyncIterable<Uint8Array>, count: (size: number) => void,
): AsyncGenerator<Uint8Array, void, undefined> {
  let size = 0
  for await (const piece of source) {
    size += piece.byteLength
    count(size)
    yield piece
  }
}

/** Smaller parts of JSON are not counted. In bytes. */
const COUNTED_BYTES = 16_384
const TURN = new SharedLimit(1)

/**
 * Runs work on parsed JSON of `bytes` bytes. Larger JSON does not wait for memory, because it takes
 * memory already.
 */
export async function withParsed<R>(
  request: HttpRequest<unknown>, bytes: number, work: () => Promise<R>,
): Promise<R> {
  if (bytes <= COUNTED_BYTES) return await work()
  const heap = PARSED.open(countedAs(request))
  const code = heap.tryAcquire(bytes * HEAP_PER_BYTE)
  if (code !== undefined) throw memoryRefused(code, 'large bodies')
  try {
    return await work()
  } finally {
    heap.release()
  }
}

/** Runs work while no other work of this function runs. */
export async function inTurn<R>(
  request: HttpRequest<unknown>, work: () => Promise<R>,
): Promise<R | undefined> {
  const turn = TURN.open(countedAs(request))
  if (!await turn.acquire(1, request)) return undefined
  try {
    return await work()
  } finally {
    turn.release()
  }
}
