import { unsupported } from '../http/body/body.js'
import { readContentLength } from '../http/headers/digests.js'
import { httpError } from '../http/errors.js'
import {
  describe, type Handler, type HttpRequest, type HttpResponse, type RequestHeaders,
} from '../http/exchange.js'
import { addFailureHeaders } from '../http/failure.js'
import { parseMediaType } from '../http/headers/accept.js'
import { ContentDigest } from '../http/headers/digests.js'
import { countedAs } from '../http/requester.js'
import { empty, refuseIdempotencyKey } from '../http/respond.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { newId } from '../runtime/random-id.js'
import { OwnerBytes } from '../tasks/record/owner-bytes.js'
import { appendBody, type UploadStores } from './append.js'
import { Finisher, toStored } from './finish.js'
import { CREATING, createOperations, resourceOperations } from './operations.js'
import { reserveLimits, toSettings, type ResumableUploadOptions } from './options.js'
import {
  announce, announcedLength, canAnnounce, inconsistentLength, interopVersion, limitHeader,
  mismatchingOffset, PARTIAL_UPLOAD, readComplete, readInteger, rejectForeign, tooLarge, uploadHeaders,
  type UploadLimits,
} from './protocol.js'
import { ageKey, isUploadId, stateKey, UploadRecords, type UploadState } from './upload-state.js'

/** The two handlers of resumable uploads. Mount both below the same path. */
export interface ResumableUpload<C = unknown> {
  /**
   * Mount it instead of the handler. A request with `Upload-Complete` creates an upload, and
   * OPTIONS returns the limits. Any other request goes to the handler. An upload by a method that
   * the handler does not support gets 405 `method_not_allowed`. A handler without a description
   * supports POST, PUT and PATCH, if they are routed to it. Only `router` knows which methods are
   * routed, so OPTIONS has `Allow` there, and wherever the handler has a description.
   */
  readonly create: Handler<C>
  /** One upload, at `uploadPath`: HEAD returns its offset, PATCH appends, DELETE drops it. */
  readonly resource: Handler<C>
}

/**
 * Lets clients resume uploads to a handler after the connection broke
 * (draft-ietf-httpbis-resumable-upload, interop versions 5 to 9). When all bytes have arrived, the
 * handler gets them as the body of one request, with the method, path and headers of the first one.
 * The client gets the response of the handler, and can request it again if it was lost.
 *
 * The bytes are in `blobs` and the state is in `store`, so each request may reach another process.
 * Of two requests that append to one upload, the newer one ends the older one. If the process of a
 * handler dies, the next request runs the handler again.
 *
 * Requests of tus 1.0 get 412 `precondition_failed` with `Tus-Version`, and a body with
 * `Content-Range` gets a 400. Neither reaches the handler.
 *
 * Errors: 404 `upload_not_found`, 409 `upload_offset_mismatch` and `upload_superseded`, 413
 * `body_too_large`, 400 `digest_mismatch`, `upload_length_inconsistent` and
 * `upload_append_too_small`, 429 `too_many_uploads` and `too_many_bytes`.
 * @example
 * const films = resumableUpload(handler, {
 *   blobs, store, owner: 'principal', uploadPath: '/uploads/{id}',
 * })
 * const api = router({
 *   'POST|OPTIONS /films': films.create,
 *   'GET|HEAD|PATCH|DELETE|OPTIONS /uploads/{id}': films.resource,
 * })
 * @throws {TypeError} An option is unknown, missing or out of range, or `handler` is not a function.
 */
export function resumableUpload<C = unknown>(
  handler: Handler<C>, options: ResumableUploadOptions<C>,
): ResumableUpload<C> {
  const settings = toSettings(options)
  if (typeof handler !== 'function') {
    throw new TypeError('resumableUpload: pass the handler of the finished uploads, a function; '
      + 'of an endpoint with `background` pass its handler(endpoints)')
  }
  const { store, blobs } = settings
  const stores = {
    settings, records: new UploadRecords(store, blobs, settings.retentionMs),
    owners: OwnerBytes.of(store, blobs),
  }
  const finisher = new Finisher(handler, stores)
  const create = new CreateUpload(handler, stores, finisher)
  const resource = new UploadResource(stores, finisher)
  return {
    create: describe((request) => create.handle(request), createOperations(handler)),
    resource: describe(
      (request) => resource.handle(request), resourceOperations(settings.path.template, handler),
    ),
  }
}

const NO_CONTENT = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT'])
const ALLOW = 'DELETE, GET, HEAD, OPTIONS, PATCH'
/** Up to this interop version a PATCH may have any media type. */
const ANY_TYPE_UNTIL = 5
/** Up to this interop version a part is acknowledged with 201. */
const CREATED_UNTIL = 6

class CreateUpload<C> {
  private readonly methods: ReadonlySet<string>

  constructor(
    private readonly handler: Handler<C>, private readonly stores: UploadStores<C>,
    private readonly finisher: Finisher<C>,
  ) {
    const methods = handler.operations?.map(({ method }) => method) ?? CREATING
    this.methods = new Set(['OPTIONS', ...methods])
  }

  handle(request: HttpRequest<C>): MaybePromise<HttpResponse | undefined> {
    const { method, headers } = request
    const complete = readComplete(headers)
    const allow = [...this.methods].sort().join(', ')
    if (method === 'OPTIONS' && complete === undefined) {
      const limit = limitHeader(this.stores.settings.limits)
      // Of a handler without a description, only the router knows the methods, and adds Allow.
      const isKnown = this.handler.operations !== undefined
      return {
        status: 200, headers: { ...isKnown && { allow }, 'upload-limit': limit }, body: '',
      }
    }
    if (method !== 'OPTIONS') rejectForeign(request)
    if (complete === undefined || NO_CONTENT.has(method)) return this.handler(request)
    // Before the bytes are stored, because the handler would reject them all.
    if (!this.methods.has(method)) throw httpError('method_not_allowed', { headers: { allow } })
    return this.create(request, complete)
  }

  private async create(request: HttpRequest<C>, complete: boolean): Promise<HttpResponse> {
    const { settings, records, owners } = this.stores
    const { limits, path, store } = settings
    const { headers } = request
    const { owner } = settings.requester(request)
    const length = announcedLength(headers, complete, 0, null)
    checkSizes(limits, headers, 0, length)
    ContentDigest.of(headers)
    ContentDigest.of(headers, 'repr-digest')
    await settings.check?.(request)

    const id = newId()
    const location = path.of(request.mountPath, id)
    const state: UploadState = {
      owner: owner ?? null, countedAs: countedAs(request, owner), request: toStored(request),
      length: length ?? null, offset: 0, parts: [], writer: newId(), asked: false, final: complete,
      received: false,
    }
    const writer = await records.create(id, state, limits.maxAgeMs)
    const reserved = length ?? readContentLength(headers) ?? 0
    // A client that does not know the path of its upload cannot resume it.
    let isUseless = true
    try {
      await owners.reserve(state.countedAs, stateKey(id), reserved, {
        ...reserveLimits(settings), maxUploads: settings.maxPerOwner,
      })
      // This counter measures the remaining time.
      await store.increment(ageKey(id), 0, { ttlMs: limits.maxAgeMs })
      isUseless = !canAnnounce(request)
      announce(request, { location, 'upload-limit': limitHeader(limits) })
      await appendBody(this.stores, request, writer, { complete, reserved })
    } catch (error) {
      if (isUseless) await this.drop(id, state)
      throw error
    }
    if (!complete) {
      const limit = limitHeader(limits)
      return empty(201, { location, 'upload-limit': limit, ...uploadHeaders(writer.state.offset) })
    }
    try {
      const response = await this.finisher.respond(request, id, writer.state)
      return { ...response, headers: { location, ...response.headers } }
    } catch (error) {
      // If the failure is temporary, the client can complete the same upload again there.
      addFailureHeaders(error, { location })
      throw error
    }
  }

  private async drop(id: string, { owner, countedAs: caller }: UploadState): Promise<void> {
    try {
      await this.stores.records.remove(id, owner ?? undefined)
      await this.stores.owners.remove(caller, stateKey(id))
    } catch {
      // It was deleted before, or expires.
    }
  }
}

/** One upload (draft sections 4.3 to 4.5). */
class UploadResource<C> {
  constructor(private readonly stores: UploadStores<C>, private readonly finisher: Finisher<C>) {}

  async handle(request: HttpRequest<C>): Promise<HttpResponse | undefined> {
    const { path, requester, limits } = this.stores.settings
    const id = path.idIn(request.mountPath, request.path) ?? request.params['id']
    const { method } = request
    if (method === 'OPTIONS') {
      const headers = { 'allow': ALLOW, 'accept-patch': PARTIAL_UPLOAD }
      return { status: 200, headers: { ...headers, 'upload-limit': limitHeader(limits) }, body: '' }
    }
    rejectForeign(request)
    if (!ALLOW.split(', ').includes(method)) {
      throw httpError('method_not_allowed', { headers: { allow: ALLOW } })
    }
    const { owner } = requester(request)
    if (!isUploadId(id)) throw httpError('upload_not_found')
    // A repeated append is rejected because of its Upload-Offset.
    if (method === 'DELETE' || method === 'PATCH') refuseIdempotencyKey(request)
    if (method === 'DELETE') return this.drop(request, id, owner)
    if (method === 'PATCH') return this.append(request, id, owner)
    return this.offset(request, id, owner)
  }

  /**
   * Returns the offset. Ends a request that appends, so that the offset stays true. If all bytes
   * are there, waits for the response of the handler, because the client may send nothing more.
   */
  private async offset(
    request: HttpRequest<C>, id: string, owner: string | undefined,
  ): Promise<HttpResponse> {
    const { records, settings: { store, limits } } = this.stores
    const state = (await records.settle(id, owner)).value as UploadState
    const { resetMs } = await store.increment(ageKey(id), 0, { ttlMs: limits.maxAgeMs })
    const isComplete = state.received && await this.finisher.conclude(request, id, state)
    // Clients take an offset that equals the length for the end. Draft 13 does not require it.
    const hasEnded = isComplete || state.offset !== state.length
    return empty(204, {
      ...uploadHeaders(state.offset, isComplete),
      ...hasEnded && state.length !== null && { 'upload-length': String(state.length) },
      'upload-limit': limitHeader(limits, resetMs),
    })
  }

  private async drop(
    request: HttpRequest<C>, id: string, owner: string | undefined,
  ): Promise<HttpResponse> {
    const { records, owners } = this.stores
    const state = await records.remove(id, owner)
    if (state.received && await this.finisher.cancel(request, id, state)) {
      await records.deleteParts(id, state.parts)
    }
    await owners.remove(state.countedAs, stateKey(id))
    return empty(204, { 'cache-control': 'no-store' })
  }

  private async append(
    request: HttpRequest<C>, id: string, owner: string | undefined,
  ): Promise<HttpResponse> {
    const { records } = this.stores
    const { headers } = request
    const { offset, complete } = readPatch(headers)
    for (;;) {
      const record = await records.settle(id, owner)
      const state = record.value as UploadState
      if (offset !== state.offset) throw mismatchingOffset(state.offset, offset)
      if (state.received) {
        // The response of the handler was lost.
        if (await request.body.bytes(0) === undefined) throw inconsistentLength(state.offset)
        return this.finisher.respond(request, id, state)
      }
      let length: number | undefined
      let reserved: number | undefined
      try {
        length = announcedLength(headers, complete, offset, state.length)
        checkSizes(this.stores.settings.limits, headers, offset, length)
        reserved = await this.reserve(headers, id, state, length)
      } catch (error) {
        addFailureHeaders(error, uploadHeaders(offset))
        throw error
      }
      const next = { length: length ?? state.length, final: complete }
      const writer = await records.acquire(id, record, next)
      if (writer === undefined) continue
      await appendBody(this.stores, request, writer, { complete, reserved })
      if (complete) return this.finisher.respond(request, id, writer.state)
      const version = interopVersion(headers) ?? Infinity
      return empty(version > CREATED_UNTIL ? 204 : 201, uploadHeaders(writer.state.offset))
    }
  }

  /** Reserves the bytes of the request, or of the complete upload, if its length is known only now. */
  private async reserve(
    headers: RequestHeaders, id: string, { countedAs: caller, length: known, offset }: UploadState,
    length: number | undefined,
  ): Promise<number | undefined> {
    if (known !== null) return undefined
    const { settings, owners } = this.stores
    const size = readContentLength(headers)
    const end = length ?? (size === undefined ? undefined : offset + size)
    if (end === undefined) return undefined
    return owners.reserve(caller, stateKey(id), end, reserveLimits(settings))
  }
}

/** @throws {HttpError} 413: a request that appends at `offset` is too large, or its upload is. */
function checkSizes(
  limits: UploadLimits, headers: RequestHeaders, offset: number, length: number | undefined,
): void {
  const { maxBodyBytes, maxAppendBytes } = limits
  const size = readContentLength(headers) ?? 0
  if (size > maxAppendBytes) {
    throw tooLarge(limits, `The body is larger than ${maxAppendBytes} bytes.`)
  }
  const end = Math.min(length ?? maxBodyBytes, maxBodyBytes)
  if (offset + size > end || (length ?? 0) > maxBodyBytes) {
    throw tooLarge(limits, `The upload may have at most ${end} bytes.`)
  }
}

function readPatch(
  headers: RequestHeaders,
): { readonly offset: number, readonly complete: boolean } {
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
