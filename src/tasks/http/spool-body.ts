import { createHash } from 'node:crypto'
import { readContentLength } from '../../http/headers/digests.js'
import { bodyTooLarge } from '../../http/errors.js'
import { ownerBytesLimit, OwnerBytes } from '../record/owner-bytes.js'
import type { Blobs } from '../../stores/blobs.js'
import type { RequestHead } from './accept.js'
import type { EndpointSettings } from './settings.js'

/** Reference to a request body that is kept in blobs until its task reads it. */
export interface SpooledBody {
  readonly blob: string
  readonly coding: string
  /** Number of bytes as sent. */
  readonly size: number
}

export interface BodyStore {
  readonly blobs: Blobs
  /** Lifetime of a body without a renewal, in milliseconds. */
  readonly retentionMs: number
  /** Returns the key of a new blob. */
  newKey(): string
}

export interface ArrivingBody {
  /** The bytes as sent. */
  readonly bytes: AsyncIterable<Uint8Array>
  readonly coding: string
  readonly maxBodyBytes: number
}

export interface ArrivedBody {
  readonly spooled: SpooledBody
  /** SHA-256 of the bytes as sent, in hex. */
  readonly sha256: string
  /** Deletes a body that no task will read. Never rejects. */
  readonly discard: () => Promise<void>
}

/** Default of `maxBodyBytes` of uploads and of NDJSON: their limits are equal. */
const LARGEST_BYTES = 2 ** 34
/** Maximum time for a body to arrive, in milliseconds. Until then, its reserved bytes count. */
const DAY_MS = 86_400_000
/** Minimum number of bytes that are reserved in advance for a body of unknown length. */
const STEP_BYTES = 2 ** 20

/** Writes a body to blobs. Reserves the bytes for the caller before they are written. */
export async function spoolBody<C>(
  settings: EndpointSettings<C>, { request, caller }: RequestHead<C>, spool: BodyStore,
  body: ArrivingBody,
): Promise<ArrivedBody> {
  const { blobs, retentionMs: ttlMs } = spool
  const { bytes, coding } = body
  const maxBytes = ownerBytesLimit(
    'taskEndpoints', settings.maxBytesPerOwner, blobs, Math.max(body.maxBodyBytes, LARGEST_BYTES),
  )
  const maxBodyBytes = Math.min(body.maxBodyBytes, maxBytes)
  const { headers, signal, body: { parsed } } = request
  const length = parsed === undefined ? readContentLength(headers) ?? 0 : 0
  const checkSize = (size: number): void => {
    if (size > maxBodyBytes) throw bodyTooLarge(maxBodyBytes)
  }
  checkSize(length)
  const owners = OwnerBytes.of(settings.core.settings.store, blobs)
  const blob = spool.newKey()
  const discard = async (): Promise<void> => {
    try {
      await blobs.delete(blob)
      await owners.remove(caller, blob)
    } catch {
      // It counts until it expires.
    }
  }
  let reserved = 0
  const reserve = async (size: number, least: number): Promise<void> => {
    reserved = await owners.reserve(caller, blob, size, { maxBytes, least, ttlMs, arrivalMs: DAY_MS })
  }
  const hash = createHash('sha256')
  const counted = async function* (): AsyncGenerator<Uint8Array, void, undefined> {
    let arrived = 0
    for await (const piece of bytes) {
      hash.update(piece)
      arrived += piece.byteLength
      checkSize(arrived)
      if (arrived > reserved) {
        const ahead = Math.max(STEP_BYTES, Math.ceil(arrived / 8))
        await reserve(Math.min(maxBodyBytes, arrived + ahead), arrived)
      }
      yield piece
    }
  }
  try {
    if (length > 0) await reserve(length, length)
    const { size } = await blobs.put(blob, counted(), { ttlMs, signal })
    await owners.set(caller, blob, size, ttlMs)
    return { spooled: { blob, coding, size }, sha256: hash.digest('hex'), discard }
  } catch (error) {
    await discard()
    throw error
  }
}
