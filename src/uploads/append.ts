import { readContentLength } from '../http/body/body.js'
import type { HttpRequest } from '../http/exchange.js'
import { addFailureHeaders, readFailure } from '../http/failure.js'
import { httpError } from '../http/errors.js'
import type { OwnerBytes } from '../tasks/record/owner-bytes.js'
import { BodyParts } from './body-parts.js'
import { inconsistentLength, uploadFields } from './fields.js'
import { announce } from './interop.js'
import { limitField, reserveLimits, type Settings } from './options.js'
import { superseded, type UploadRecords } from './records.js'
import { partKey, stateKey, type Part } from './state.js'
import type { UploadWriter } from './writer.js'

/** One request that appends to an upload. */
export interface Append<C> {
  readonly request: HttpRequest<C>
  readonly writer: UploadWriter
  readonly records: UploadRecords
  readonly settings: Settings<C>
  readonly owners: OwnerBytes
  /** Bytes of the upload that are reserved for its owner, if its length is not known. */
  readonly reserved?: number | undefined
  /** True if the body is the last one of the upload. */
  readonly complete: boolean
}

/** The bytes of a request, as far as they are in blobs. */
interface Stored {
  /** Parts that are not in the state yet. */
  readonly parts: Part[]
  /** Set if no further part is allowed. */
  full: boolean
  /** Bytes that are reserved for the owner, if this request has reserved any. */
  reserved: number | undefined
}

/**
 * Appends the body of a request to its upload. Bytes that arrived before the connection broke stay.
 * If `complete` and the body is whole, the upload is received after it.
 *
 * @throws {HttpError} `body_too_large`, `too_many_bytes`, `digest_mismatch`,
 * `upload_append_too_small`,
 * `upload_length_inconsistent`, `upload_superseded`, `upload_not_found`, or the error of the body
 */
export async function appendBody<C>(append: Append<C>): Promise<void> {
  const { request, writer, settings } = append
  const { limits, store } = settings
  const stored: Stored = { parts: [], full: false, reserved: append.reserved }
  let unwatch = (): void => undefined
  let body: BodyParts | undefined
  try {
    const whole = (writer.state.length ?? limits.maxBodyBytes) - writer.state.offset
    body = new BodyParts(request.body.stream(), Math.min(whole, limits.maxAppendBytes))
    unwatch = await writer.watch(store, request.body, () => { body?.stop() })
    await storeParts(append, body, stored)
    await conclude(append, body, stored, whole)
  } catch (error) {
    await giveUp(append, error, stored)
    throw error
  } finally {
    unwatch()
    body?.close()
    await returnRest(append, stored)
  }
}

/**
 * Reserves the next part of a body of unknown length for its owner. Returns the size that it may
 * have.
 */
async function nextSize<C>(
  { request, writer, settings, owners }: Append<C>, stored: Stored,
): Promise<number> {
  const { limits, partBytes } = settings
  const { countedAs, length, offset } = writer.state
  const size = Math.max(partBytes, limits.minAppendBytes)
  if ((length ?? readContentLength(request.headers)) !== undefined) return size
  const used = offset + bytesOf(stored.parts)
  try {
    stored.reserved = await owners.reserve(
      countedAs, stateKey(writer.id), Math.min(used + size, limits.maxBodyBytes),
      { ...reserveLimits(settings), least: used + 1 },
    )
  } catch (error) {
    throw atOffset(error, writer)
  }
  return stored.reserved - used
}

/** Gives back what was reserved and is not used, if the client may append more later. */
async function returnRest<C>({ writer, owners }: Append<C>, stored: Stored): Promise<void> {
  const { countedAs, length, offset } = writer.state
  if (stored.reserved === undefined || length !== null || stored.reserved <= offset) return
  await owners.reduce(countedAs, stateKey(writer.id), stored.reserved, offset)
}

function bytesOf(parts: readonly Part[]): number {
  return parts.reduce((sum, [, size]) => sum + size, 0)
}

/** Writes the body to blobs, one part after the other. Adds each to the state once it is stored. */
async function storeParts<C>(
  append: Append<C>, body: BodyParts, stored: Stored,
): Promise<void> {
  const { request, writer, settings } = append
  const { blobs, limits, maxParts, retentionMs } = settings
  // Bytes with a digest count only once all of them are here.
  const isDeferred = request.headers['content-digest'] !== undefined
  while (await body.hasMore()) {
    if (writer.state.parts.length + stored.parts.length >= maxParts) {
      stored.full = true
      return
    }
    const size = await nextSize(append, stored)
    const name = writer.newPart()
    const part = await blobs.put(partKey(writer.id, name), body.part(size), {
      ttlMs: limits.maxAgeMs + retentionMs,
    })
    stored.parts.push([name, part.size])
    if (isDeferred || body.ended !== undefined) continue
    await writer.add(stored.parts)
    stored.parts.length = 0
    announce(request, { 'upload-offset': String(writer.state.offset) })
  }
}

/** Decides at the end of a body which of its bytes stay, and ends the right to append. */
async function conclude<C>(
  { request, writer, records, settings, complete }: Append<C>, body: BodyParts, stored: Stored,
  whole: number,
): Promise<void> {
  const { limits, retentionMs } = settings
  const { owner, length, offset } = writer.state
  const error = body.ended?.error
  const isWhole = error === undefined && !body.cut && !body.exceeded && !stored.full
  const isFirstEmpty = offset === 0 && body.bytes === 0
  const isSmall = isWhole && !complete && !isFirstEmpty && body.bytes < limits.minAppendBytes
  const isWrong = error !== undefined && readFailure(error).code === 'digest_mismatch'
  if (isWrong || isSmall) {
    await records.deleteParts(writer.id, stored.parts.splice(0))
    await writer.release([])
    throw atOffset(isSmall ? httpError('upload_append_too_small') : error, writer)
  }
  if (body.exceeded && whole <= limits.maxAppendBytes) {
    // Draft section 4.4.2: the upload is invalid from now on.
    await records.remove(writer.id, owner ?? undefined)
    await records.deleteParts(writer.id, stored.parts.splice(0))
    throw tooLarge(settings, 'The upload is longer than announced, or than the server accepts.')
  }
  if (isWhole && complete) {
    const total = writer.state.offset + bytesOf(stored.parts)
    if (length === null || length === total) return writer.finish(stored.parts, retentionMs)
  }
  await writer.release(stored.parts)
  stored.parts.length = 0
  if (isWhole && complete) throw inconsistentLength(writer.state.offset)
  if (body.cut || (error !== undefined && writer.isAsked)) throw superseded(writer.state)
  if (stored.full) {
    throw atOffset(tooLarge(settings, 'The upload has too many parts; send larger ones.'), writer)
  }
  if (body.exceeded) {
    const message = `The body is larger than ${limits.maxAppendBytes} bytes.`
    throw atOffset(tooLarge(settings, message), writer)
  }
  if (error !== undefined) throw atOffset(error, writer)
  announce(request, { 'upload-offset': String(writer.state.offset) })
}

/** Cleans up after a failure, as far as the store and the blobs allow. */
async function giveUp<C>(
  { writer, records }: Append<C>, error: unknown, { parts }: Stored,
): Promise<void> {
  const { code } = readFailure(error)
  if (code === 'too_many_bytes') await records.deleteParts(writer.id, parts.splice(0))
  if (code === 'upload_superseded' || code === 'upload_not_found') {
    // These parts are in no state, and no later write of this request can land.
    await records.deleteParts(writer.id, parts)
    return
  }
  if (writer.state.writer !== writer.name) return
  // What the store may still hold is fenced when the next request comes.
  await writer.release([]).catch(() => undefined)
}

/** Adds the offset of the upload to an error. */
function atOffset(error: unknown, { state }: UploadWriter): unknown {
  addFailureHeaders(error, uploadFields(state.offset))
  return error
}

/** Returns the 413 with the limits. */
export function tooLarge<C>({ limits }: Settings<C>, message: string): Error {
  return httpError('body_too_large', {
    message, headers: { 'upload-limit': limitField(limits), 'cache-control': 'no-store' },
  })
}
