import { readContentLength } from '../http/body/body.js'
import { ContentDigest } from '../http/fields/digests.js'
import { httpError } from '../http/errors.js'
import { addFailureHeaders } from '../http/failure.js'
import type { Handler, HttpRequest, HttpResponse } from '../http/exchange.js'
import { empty } from '../http/respond.js'
import { newId } from '../runtime/random-id.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { countedAs } from '../http/requester.js'
import type { OwnerBytes } from '../tasks/record/owner-bytes.js'
import { appendBody, tooLarge } from './append.js'
import { announcedLength, readComplete, uploadFields } from './fields.js'
import type { Finisher } from './finish.js'
import { announce, canAnnounce } from './interop.js'
import { limitField, reserveLimits, type Settings } from './options.js'
import type { UploadRecords } from './records.js'
import { toStored } from './stored-request.js'
import { ageKey, stateKey, type UploadState } from './state.js'
import { UploadWriter } from './writer.js'

/** The parts that both handlers share. */
export interface UploadParts<C> {
  readonly settings: Settings<C>
  readonly records: UploadRecords
  readonly owners: OwnerBytes
  readonly finisher: Finisher<C>
}

/** Methods whose requests have no content. */
const NO_CONTENT = new Set(['GET', 'HEAD', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT'])
/** Methods that may create an upload to a handler without a description. */
const CREATING = ['PATCH', 'POST', 'PUT']

/** Creates uploads (draft section 4.2). */
export class CreateUpload<C> {
  private readonly methods: ReadonlySet<string>

  constructor(private readonly handler: Handler<C>, private readonly parts: UploadParts<C>) {
    this.methods = new Set([
      'OPTIONS', ...handler.operations?.map(({ method }) => method) ?? CREATING,
    ])
  }

  handle(request: HttpRequest<C>): MaybePromise<HttpResponse | undefined> {
    const complete = readComplete(request.headers)
    if (request.method === 'OPTIONS' && complete === undefined) return this.limits()
    if (complete === undefined || NO_CONTENT.has(request.method)) return this.handler(request)
    // Before the bytes are stored, because the handler would refuse the whole.
    if (!this.methods.has(request.method)) {
      throw httpError('method_not_allowed', { headers: { allow: this.allow } })
    }
    return this.create(request, complete)
  }

  private get allow(): string {
    return [...this.methods].sort().join(', ')
  }

  /** Answers OPTIONS, so that clients know the limits before they send anything. */
  private limits(): HttpResponse {
    const { limits } = this.parts.settings
    const headers = { 'allow': this.allow, 'upload-limit': limitField(limits) }
    return { status: 200, headers, body: '' }
  }

  private async create(request: HttpRequest<C>, complete: boolean): Promise<HttpResponse> {
    const { settings, records, owners, finisher } = this.parts
    const { limits, path, store } = settings
    const { headers } = request
    const requester = settings.requester(request)
    const length = announcedLength(headers, complete, 0, null)
    this.checkSizes(request, length)
    ContentDigest.of(headers)
    ContentDigest.of(headers, 'repr-digest')
    await settings.check(request)

    const id = newId()
    const location = path.of(request.mountPath, id)
    const state: UploadState = {
      owner: requester.owner ?? null, countedAs: countedAs(request, requester.owner),
      request: toStored(request), length: length ?? null, offset: 0, parts: [],
      writer: UploadWriter.newName(), asked: false, received: false,
    }
    const held = await records.create(id, state, limits.maxAgeMs)
    const reserved = length ?? readContentLength(headers) ?? 0
    await this.reserve(id, state, reserved)
    // Starts the clock that tells the remaining time.
    await store.increment(ageKey(id), 0, { ttlMs: limits.maxAgeMs })
    const fields = { location, 'upload-limit': limitField(limits) }
    const isAnnounced = canAnnounce(request)
    announce(request, fields)

    const writer = UploadWriter.ofCreated(records, id, held)
    try {
      await appendBody({ request, writer, records, settings, owners, reserved, complete })
    } catch (error) {
      // A client that does not know the path of its upload cannot resume it.
      if (!isAnnounced) await this.drop(id, state)
      throw error
    }
    if (!complete) return empty(201, { ...fields, ...uploadFields(writer.state.offset) })
    try {
      const answer = await finisher.answer(request, id, writer.state)
      return { ...answer, headers: { location, ...answer.headers } }
    } catch (error) {
      // The same bytes can be handed over again there, if the failure is temporary.
      addFailureHeaders(error, { location })
      throw error
    }
  }

  /** Reserves the bytes of a new upload. Removes the upload if its owner has too many. */
  private async reserve(id: string, state: UploadState, bytes: number): Promise<void> {
    const { settings, owners } = this.parts
    const limits = { ...reserveLimits(settings), maxUploads: settings.maxPerOwner }
    try {
      await owners.reserve(state.countedAs, stateKey(id), bytes, limits)
    } catch (error) {
      await this.drop(id, state)
      throw error
    }
  }

  private checkSizes({ headers }: HttpRequest<C>, length: number | undefined): void {
    const { settings } = this.parts
    const { maxBodyBytes, maxAppendBytes } = settings.limits
    const size = readContentLength(headers) ?? 0
    if ((length ?? size) > maxBodyBytes) {
      throw tooLarge(settings, `The upload is larger than ${maxBodyBytes} bytes.`)
    }
    if (size > maxAppendBytes) {
      throw tooLarge(settings, `The body is larger than ${maxAppendBytes} bytes.`)
    }
    if (length !== undefined && size > length) {
      throw tooLarge(settings, 'The body is longer than the announced upload.')
    }
  }

  private async drop(id: string, { owner, countedAs }: UploadState): Promise<void> {
    try {
      await this.parts.records.remove(id, owner ?? undefined)
      await this.parts.owners.remove(countedAs, stateKey(id))
    } catch {
      // It is gone already, or expires.
    }
  }
}
