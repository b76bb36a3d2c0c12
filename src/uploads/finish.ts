import { closeUnread, isStreamed } from '../http/body/source.js'
import { httpError } from '../http/errors.js'
import type {
  BodySource, Handler, HttpRequest, HttpResponse, RequestHeaders, ResponseBody,
} from '../http/exchange.js'
import { addFailureHeaders, readFailure } from '../http/failure.js'
import { ContentDigest } from '../http/headers/digests.js'
import { errorResponse, notFound } from '../http/respond.js'
import { buffered, claimRecord, oncePerKey, rejectKey } from '../idempotency/once.js'
import { CREDENTIALS } from '../idempotency/key.js'
import { gather } from '../runtime/text.js'
import type { Blobs } from '../stores/blobs.js'
import type { UploadStores } from './append.js'
import { reserveLimits } from './options.js'
import { PARTIAL_UPLOAD, uploadHeaders } from './protocol.js'
import {
  answerKey, uploadPartKey, stateKey, type StoredRequest, type UploadState,
} from './upload-state.js'

/** Statuses after which the same bytes may be accepted later. The upload stays as it is. */
const TEMPORARY = new Set([401, 403, 408, 425, 429])
const OF_MESSAGE = [
  'connection', 'content-digest', 'content-length', 'expect', 'incremental', 'keep-alive', 'te',
  'trailer', 'transfer-encoding', 'upgrade', 'upload-complete', 'upload-draft-interop-version',
  'upload-length', 'upload-offset',
]
/** Credentials are not stored: the handler gets those of the last request. */
const NOT_STORED = new Set<string>([...CREDENTIALS, ...OF_MESSAGE])

/** Passes received uploads to their handler, each once, and keeps the responses. */
export class Finisher<C> {
  constructor(private readonly handler: Handler<C>, private readonly stores: UploadStores<C>) {}

  /** Returns the response of the handler to a received upload. */
  async respond(request: HttpRequest<C>, id: string, state: UploadState): Promise<HttpResponse> {
    const { records, owners, settings } = this.stores
    const { store, waitMs, retentionMs, maxResponseBytes } = settings
    // What the handler has done in this call, if it was called.
    const run = { hasBegun: false, isFinal: false }
    try {
      const response = await oncePerKey(request, {
        store, key: answerKey(id), fingerprint: '', caller: state.countedAs, waitMs, retentionMs,
        maxBytes: maxResponseBytes,
      }, async (began) => {
        // Its response was evicted, or it was deleted. The handler must not run again.
        if (!await records.isWaiting(id)) {
          return { response: errorResponse(httpError('upload_not_found'), request) }
        }
        run.hasBegun = true
        // The handler may store the body again for the same owner.
        await owners.remove(state.countedAs, stateKey(id))
        const conclude = (status: number, headers: Readonly<Record<string, unknown>>) => {
          run.isFinal = !TEMPORARY.has(status)
            && !(status === 503 && headers['retry-after'] !== undefined)
          if (run.isFinal) began()
        }
        try {
          const response = await this.run(request, id, state)
          conclude(response.status, response.headers)
          return { response: await buffered(response, maxResponseBytes) }
        } catch (error) {
          const { status, headers } = readFailure(error)
          conclude(status, headers)
          throw error
        } finally {
          // Before the response is stored, because it may be evicted.
          await (run.isFinal ? records.noteAnswered(id) : this.keep(id, state))
        }
      }) as HttpResponse
      const { status, body } = response
      const headers = {
        ...response.headers, ...uploadHeaders(state.offset, run.isFinal || !run.hasBegun),
      }
      const sent = run.isFinal ? this.deletingParts(id, state, body) : body
      return { status, headers, ...sent !== undefined && { body: sent } }
    } catch (error) {
      addFailureHeaders(error, uploadHeaders(state.offset, run.isFinal))
      if (run.isFinal) this.deletingParts(id, state, undefined)
      throw error
    }
  }

  /**
   * Passes a received upload to the handler, or waits for the handler. Returns false if the upload
   * has no final response afterwards.
   */
  async conclude(request: HttpRequest<C>, id: string, state: UploadState): Promise<boolean> {
    if (state.answered || await this.hasResponded(id)) return true
    try {
      const { headers, body } = await this.respond(request, id, state)
      if (isStreamed(body)) {
        closeUnread(body)
        await this.stores.records.deleteParts(id, state.parts)
      }
      return isFinal(headers)
    } catch (error) {
      const { expected, headers } = readFailure(error)
      const hasEnded = isFinal(headers)
      // Reported now or never. A temporary failure is reported again with the next PATCH.
      if (hasEnded && !expected) throw error
      return hasEnded
    }
  }

  /**
   * Prevents the handler from being called. Returns false if the handler has been called before.
   */
  async cancel(request: HttpRequest<C>, id: string, state: UploadState): Promise<boolean> {
    const { store, retentionMs } = this.stores.settings
    return rejectKey(errorResponse(httpError('upload_not_found'), request), {
      store, key: answerKey(id), caller: state.countedAs, retentionMs,
    })
  }

  private async hasResponded(id: string): Promise<boolean> {
    const claim = await claimRecord(this.stores.settings.store, answerKey(id)).read()
    return claim?.response !== undefined
  }

  /** Counts the bytes of an upload again, because its handler may get them again. */
  private async keep(id: string, state: UploadState): Promise<void> {
    const { records, owners, settings } = this.stores
    await owners.set(state.countedAs, stateKey(id), state.offset, reserveLimits(settings).ttlMs)
    if (await records.isWaiting(id).catch(() => true)) return
    await owners.remove(state.countedAs, stateKey(id))
    await records.deleteParts(id, state.parts)
  }

  private async run(
    request: HttpRequest<C>, id: string, state: UploadState,
  ): Promise<HttpResponse> {
    const body = new ReceivedBody(this.stores.settings.blobs, id, state)
    // Before the handler, because a handler that reads a stream has acted when the end is wrong.
    const [first, last] = [state.request.headers, request.headers]
    await body.check(first)
    if (last['repr-digest'] !== first['repr-digest']) await body.check(last)
    const response = await this.handler(toWhole(state.request, request, body, state.offset))
    if (response === undefined) throw notFound(request)
    return response
  }

  /** Deletes the parts when the body was sent. Returns the body to send. */
  private deletingParts(
    id: string, { parts }: UploadState, body: ResponseBody | undefined,
  ): ResponseBody | undefined {
    const deleteParts = (): void => { void this.stores.records.deleteParts(id, parts) }
    if (isStreamed(body)) return finallyDo(body, deleteParts)
    deleteParts()
    return body
  }
}

function isFinal(headers: Readonly<Record<string, unknown>>): boolean {
  return headers['upload-complete'] === '?1'
}

async function* finallyDo<T>(
  source: AsyncIterable<T>, end: () => void,
): AsyncGenerator<T, void, undefined> {
  try {
    yield* source
  } finally {
    end()
  }
}

/** The bytes of a received upload, as the body of one request. */
class ReceivedBody implements BodySource {
  readonly parsed = undefined

  constructor(
    private readonly blobs: Blobs, private readonly id: string,
    private readonly upload: UploadState,
  ) {}

  async bytes(limit: number): Promise<Uint8Array | undefined> {
    return this.upload.offset > limit ? undefined : gather(this.stream())
  }

  /** @throws {HttpError} `gone`: a part was deleted. */
  async* stream(): AsyncGenerator<Uint8Array, void, undefined> {
    for (const [name] of this.upload.parts) {
      const part = await this.blobs.open(uploadPartKey(this.id, name))
      if (part === undefined) {
        throw httpError('gone', { message: 'The uploaded bytes no longer exist.' })
      }
      yield* part
    }
  }

  /**
   * Reads all bytes and compares them with `Repr-Digest` (RFC 9530 section 3), if the request has
   * one.
   */
  async check(headers: RequestHeaders): Promise<void> {
    const digest = ContentDigest.of(headers, 'repr-digest')
    if (digest === undefined) return
    // The last read throws if the digest differs.
    for await (const _ of digest.checked(this.stream()));
  }
}

export function toStored(request: HttpRequest<unknown>): StoredRequest {
  const { method, path, search, mountPath, params, version } = request
  const headers = Object.fromEntries(
    Object.entries(request.headers).filter(([name]) => !NOT_STORED.has(name)),
  )
  // The media type of the message, not of the content.
  if (headers['content-type'] === PARTIAL_UPLOAD) delete headers['content-type']
  const query = request.query.toString()
  return {
    method, path, mountPath, params, headers, version: version ?? null,
    search: search ?? (query === '' ? '' : `?${query}`),
  }
}

/** Returns the request with all bytes as its body. */
function toWhole<C>(
  { version, ...stored }: StoredRequest, last: HttpRequest<C>, body: BodySource, size: number,
): HttpRequest<C> {
  const credentials = Object.fromEntries(
    CREDENTIALS.map((name) => [name, last.headers[name]]).filter(([, value]) => value !== undefined),
  ) as RequestHeaders
  const digest = last.headers['repr-digest'] ?? stored.headers['repr-digest']
  return last.with({
    ...stored, body,
    headers: {
      ...stored.headers, ...credentials, 'repr-digest': digest, 'content-length': String(size),
    },
    signal: () => new AbortController().signal,
    ...version !== null && { version },
  })
}
