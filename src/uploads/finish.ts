import { isStreamed } from '../http/body/source.js'
import type { Handler, HttpRequest, HttpResponse, ResponseBody } from '../http/exchange.js'
import { httpError } from '../http/errors.js'
import { addFailureHeaders, readFailure } from '../http/failure.js'
import { notFound } from '../http/respond.js'
import { buffered, oncePerKey } from '../idempotency/once.js'
import { toHeld as toClaim } from '../idempotency/claim.js'
import type { OwnerBytes } from '../tasks/record/owner-bytes.js'
import { uploadFields } from './fields.js'
import { reserveLimits, type Settings } from './options.js'
import { ReceivedBody } from './received-body.js'
import type { UploadRecords } from './records.js'
import { answerKey, stateKey, type UploadState } from './state.js'
import { toWhole } from './stored-request.js'

/** Statuses after which the same bytes may be accepted later. The upload stays as it is. */
const TEMPORARY = new Set([401, 403, 408, 425, 429])

/** Hands received uploads to their handler, each once, and keeps the answers. */
export class Finisher<C> {
  constructor(
    private readonly handler: Handler<C>, private readonly settings: Settings<C>,
    private readonly records: UploadRecords, private readonly owners: OwnerBytes,
  ) {}

  /**
   * Returns the answer of the handler to a received upload. Calls the handler only if it has not
   * answered yet. The run continues if the client disconnects. If the process dies, the next
   * request runs the handler again.
   *
   * @throws {HttpError} 409 `idempotent_request_running`, and the errors of the handler
   */
  async answer(request: HttpRequest<C>, id: string, state: UploadState): Promise<HttpResponse> {
    const { store, waitMs, retentionMs, maxResponseBytes } = this.settings
    const options = {
      store, key: answerKey(id), fingerprint: '', owner: state.countedAs, waitMs, retentionMs,
      maxBytes: maxResponseBytes,
    }
    // Its answer was removed early. The handler must not run again.
    if (state.answered && !await this.isAnswered(id)) throw httpError('upload_not_found')
    let isFinal = true
    let hasRun = false
    try {
      const answer = await oncePerKey(request, options, async (began) => {
        hasRun = true
        // The handler may spool the body again for the same owner.
        await this.owners.remove(state.countedAs, stateKey(id))
        try {
          const response = await this.run(request, id, state)
          isFinal = !isTemporary(response.status, response.headers)
          if (isFinal) began()
          return { response: await buffered(response, maxResponseBytes) }
        } catch (error) {
          const { status, headers } = readFailure(error)
          isFinal = !isTemporary(status, headers)
          if (isFinal) began()
          throw error
        } finally {
          if (!isFinal) await this.keep(id, state)
        }
      })
      const response = answer as HttpResponse
      const headers = { ...response.headers, ...uploadFields(state.offset, isFinal) }
      if (hasRun && isFinal) await this.records.noteAnswered(id)
      const body = hasRun && isFinal ? this.cleanUp(id, state, response.body) : response.body
      return { status: response.status, headers, ...body !== undefined && { body } }
    } catch (error) {
      const isRunning = !hasRun
      addFailureHeaders(error, uploadFields(state.offset, isFinal && !isRunning))
      if (hasRun && isFinal) {
        await this.records.noteAnswered(id)
        this.cleanUp(id, state, undefined)
      }
      throw error
    }
  }

  /** Counts the bytes of an upload again that its handler may get again. */
  private async keep(id: string, state: UploadState): Promise<void> {
    const { records, owners, settings } = this
    const { ttlMs } = reserveLimits(settings)
    await owners.set(state.countedAs, stateKey(id), state.offset, ttlMs)
    if (await records.exists(id).catch(() => true)) return
    await owners.remove(state.countedAs, stateKey(id))
    await records.deleteParts(id, state.parts)
  }

  /** Returns whether the handler runs, or has answered. */
  async isBegun(id: string): Promise<boolean> {
    return await this.settings.store.get(answerKey(id)) !== undefined
  }

  /** Returns whether the answer of the handler is known. */
  async isAnswered(id: string): Promise<boolean> {
    const entry = await this.settings.store.get(answerKey(id))
    const claim = entry && toClaim(entry).claim
    return claim?.response !== undefined
  }

  private async run(
    request: HttpRequest<C>, id: string, state: UploadState,
  ): Promise<HttpResponse> {
    const body = new ReceivedBody(this.settings.blobs, id, state)
    const whole = toWhole(state.request, request, body, state.offset)
    // Before the handler, because a handler that reads a stream has acted when the end is wrong.
    const [first, last] = [state.request.headers, request.headers]
    await body.check(first)
    if (last['repr-digest'] !== first['repr-digest']) await body.check(last)
    const response = await this.handler(whole)
    if (response === undefined) throw notFound(request)
    return response
  }

  /** Deletes the parts once nobody reads them any more. Returns the body to send. */
  private cleanUp(
    id: string, state: UploadState, body: ResponseBody | undefined,
  ): ResponseBody | undefined {
    const clean = (): void => { void this.records.deleteParts(id, state.parts) }
    if (isStreamed(body)) return finallyDo(body, clean)
    clean()
    return body
  }
}

/** Returns whether an answer means that the upload may be handed over again later. */
function isTemporary(status: number, headers: Readonly<Record<string, unknown>>): boolean {
  return TEMPORARY.has(status) || (status === 503 && headers['retry-after'] !== undefined)
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
