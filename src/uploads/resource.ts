import { readContentLength, unsupported } from '../http/body/body.js'
import { ContentDigest } from '../http/fields/digests.js'
import { parseMediaType } from '../http/fields/accept.js'
import { refuseIdempotencyKey, empty } from '../http/respond.js'
import { addFailureHeaders } from '../http/failure.js'
import { httpError } from '../http/errors.js'
import type { HttpRequest, HttpResponse } from '../http/exchange.js'
import { appendBody, tooLarge } from './append.js'
import type { UploadParts } from './create.js'
import {
  announcedLength, inconsistentLength, mismatchingOffset, PARTIAL_UPLOAD, readComplete,
  readInteger, uploadFields,
} from './fields.js'
import { interopVersion } from './interop.js'
import { limitField, reserveLimits } from './options.js'
import { ageKey, isUploadId, stateKey, type UploadState } from './state.js'
import { UploadWriter } from './writer.js'

const ALLOW = 'DELETE, GET, HEAD, OPTIONS, PATCH'
/** Up to this interop version a PATCH may have any media type. */
const ANY_TYPE_UNTIL = 5
/** Up to this interop version a part is acknowledged with 201. */
const CREATED_UNTIL = 6

/** Header fields of a PATCH. */
interface Patch {
  readonly offset: number
  readonly complete: boolean
}

/** One upload (draft sections 4.3 to 4.5). */
export class UploadResource<C> {
  constructor(private readonly parts: UploadParts<C>) {}

  async handle(request: HttpRequest<C>): Promise<HttpResponse | undefined> {
    const { path, requester, limits } = this.parts.settings
    const id = path.idIn(request.mountPath, request.path) ?? request.params['id']
    const { method } = request
    if (method === 'OPTIONS') {
      const headers = { 'allow': ALLOW, 'accept-patch': PARTIAL_UPLOAD }
      return { status: 200, headers: { ...headers, 'upload-limit': limitField(limits) }, body: '' }
    }
    if (!ALLOW.split(', ').includes(method)) {
      throw httpError('method_not_allowed', { headers: { allow: ALLOW } })
    }
    const { owner } = requester(request)
    if (!isUploadId(id)) throw httpError('upload_not_found')
    // An append says its place by Upload-Offset, so a repeated one is refused by that.
    if (method === 'DELETE' || method === 'PATCH') refuseIdempotencyKey(request)
    if (method === 'DELETE') return this.drop(id, owner)
    if (method === 'PATCH') return this.append(request, id, owner)
    return this.offset(id, owner)
  }

  /** Tells the offset. Ends a request that appends, so that the offset stays true. */
  private async offset(id: string, owner: string | undefined): Promise<HttpResponse> {
    const { records, finisher, settings: { store, limits } } = this.parts
    const { state } = await records.settle(id, owner)
    const { resetMs } = await store.increment(ageKey(id), 0, { ttlMs: limits.maxAgeMs })
    const isAnswered = state.received && await finisher.isAnswered(id)
    return empty(204, {
      ...uploadFields(state.offset, isAnswered),
      ...state.length !== null && { 'upload-length': String(state.length) },
      'upload-limit': limitField(limits, resetMs),
    })
  }

  private async drop(id: string, owner: string | undefined): Promise<HttpResponse> {
    const { records, owners, finisher } = this.parts
    const state = await records.remove(id, owner)
    if (state.received && !await finisher.isBegun(id)) await records.deleteParts(id, state.parts)
    await owners.remove(state.countedAs, stateKey(id))
    return empty(204, { 'cache-control': 'no-store' })
  }

  private async append(
    request: HttpRequest<C>, id: string, owner: string | undefined,
  ): Promise<HttpResponse> {
    const { settings, records, owners, finisher } = this.parts
    const patch = readPatch(request)
    for (;;) {
      const held = await records.settle(id, owner)
      const { state } = held
      if (patch.offset !== state.offset) throw mismatchingOffset(state.offset, patch.offset)
      if (state.received) return this.again(request, id, state)
      const length = this.checkSizes(request, patch, state)
      const reserved = await this.reserve(request, id, state, length)
      const writer = await UploadWriter.acquire(records, id, held, length)
      if (writer === undefined) continue
      await appendBody({
        request, writer, records, settings, owners, reserved, complete: patch.complete,
      })
      if (patch.complete) return finisher.answer(request, id, writer.state)
      const version = interopVersion(request.headers) ?? Infinity
      return empty(version > CREATED_UNTIL ? 204 : 201, uploadFields(writer.state.offset))
    }
  }

  /** Reserves the bytes of the request, or of the whole, if its length is known only now. */
  private async reserve(
    { headers }: HttpRequest<C>, id: string, { countedAs, length: known, offset }: UploadState,
    length: number | undefined,
  ): Promise<number | undefined> {
    if (known !== null) return undefined
    const { settings, owners } = this.parts
    const size = readContentLength(headers)
    const end = length ?? (size === undefined ? undefined : offset + size)
    if (end === undefined) return undefined
    try {
      return await owners.reserve(countedAs, stateKey(id), end, reserveLimits(settings))
    } catch (error) {
      addFailureHeaders(error, uploadFields(offset))
      throw error
    }
  }

  /** Answers a request that wants to complete a received upload: its answer was lost. */
  private async again(
    request: HttpRequest<C>, id: string, state: UploadState,
  ): Promise<HttpResponse> {
    const bytes = await request.body.bytes(0)
    if (bytes === undefined) throw inconsistentLength(state.offset)
    return this.parts.finisher.answer(request, id, state)
  }

  /** Returns the length of the upload, if it is known. */
  private checkSizes(
    { headers }: HttpRequest<C>, { complete, offset }: Patch, state: UploadState,
  ): number | undefined {
    const { settings } = this.parts
    const { maxBodyBytes, maxAppendBytes } = settings.limits
    const length = announcedLength(headers, complete, offset, state.length)
    const size = readContentLength(headers) ?? 0
    const end = Math.min(length ?? maxBodyBytes, maxBodyBytes)
    const isTooLarge = size > maxAppendBytes || offset + size > end || (length ?? 0) > maxBodyBytes
    if (!isTooLarge) return length
    const message = size > maxAppendBytes
      ? `The body is larger than ${maxAppendBytes} bytes.`
      : `The upload ends at ${end} bytes.`
    const error = tooLarge(settings, message)
    addFailureHeaders(error, uploadFields(offset))
    throw error
  }
}

/** @throws {HttpError} The media type is another one, or a field is missing or malformed. */
function readPatch({ headers }: HttpRequest<unknown>): Patch {
  const version = interopVersion(headers) ?? Infinity
  const type = headers['content-type']
  const isPartial = typeof type === 'string' && parseMediaType(type)?.type === PARTIAL_UPLOAD
  if (!isPartial && version > ANY_TYPE_UNTIL) {
    const error = unsupported([PARTIAL_UPLOAD])
    addFailureHeaders(error, { 'accept-patch': PARTIAL_UPLOAD })
    throw error
  }
  ContentDigest.of(headers)
  ContentDigest.of(headers, 'repr-digest')
  const offset = readInteger(headers, 'upload-offset')
  const complete = readComplete(headers)
  if (offset === undefined) throw missing('Upload-Offset', 'an integer, such as 0')
  if (complete === undefined) throw missing('Upload-Complete', '?0 or ?1')
  return { offset, complete }
}

function missing(name: string, form: string): Error {
  return httpError('invalid_header', { message: `${name} is required: ${form}.` })
}
