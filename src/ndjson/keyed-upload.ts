import { httpError } from '../http/errors.js'
import type { HttpRequest, HttpResponse } from '../http/exchange.js'
import { readFailure } from '../http/failure.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { newId } from '../runtime/random-id.js'
import { isReplaced } from '../tasks/definition/resume.js'
import type { TaskEndpoints } from '../tasks/http/endpoints.js'
import type { Resumption } from './ingest.js'
import { fromCursor, type StoredErrors, type UploadPosition } from './upload-position.js'
import {
  incomplete, MAX_SEGMENTS, readKept, type KeptUpload, type Progress,
} from './upload-progress.js'
import type { UploadReport } from './upload-report.js'
import { afterSegments, SegmentDigest, withFirst, type Segment } from './upload-segments.js'

/** Errors of a body that did not arrive whole. A later request brings the rest. */
const BROKEN = new Set(['incomplete_body', 'request_timeout'])

/** A direct upload with an Idempotency-Key that is read while it arrives. */
export interface KeyedUpload<C> {
  readonly endpoints: TaskEndpoints<C>
  readonly request: HttpRequest<C>
  /** The decoded body. */
  readonly body: AsyncIterable<Uint8Array>
  readonly report: UploadReport
  /** Reads and writes the records, from `resumption.from` on. Resolves when all are written. */
  readonly ingest: (
    body: AsyncIterable<Uint8Array>, resumption: Resumption, uploadId: string | undefined,
  ) => Promise<void>
  /** Returns the cursor that the application has stored; missing if it stores none. */
  readonly resume: ((uploadId: string) => MaybePromise<string | null | undefined>) | undefined
  /** Returns the answer to the whole upload. */
  readonly respond: () => HttpResponse
  /** Adds the report to an error. */
  readonly withReport: (error: unknown) => unknown
}

/**
 * Answers a direct upload with an Idempotency-Key. Its position is stored after each batch. If the
 * connection breaks, a later request with the same key continues: it sends all bytes again, of
 * which the first are compared and not written twice, or `Upload-Offset` and the rest.
 *
 * A request with `Upload-Offset` and an empty body asks for the position. If the work of the key
 * has ended, it gets the stored answer. It completes the upload only with an `Upload-Length` that
 * is the position.
 *
 * @throws {HttpError} 409 `upload_incomplete`: the upload continues at another byte. 422
 * `idempotency_key_reused`: the bytes are not those of the earlier request. 409
 * `idempotent_request_running`
 */
export async function respondKeyed<C>(upload: KeyedUpload<C>): Promise<HttpResponse> {
  const chunks = upload.body[Symbol.asyncIterator]()
  try {
    return await respondTo({ ...upload, body: { [Symbol.asyncIterator]: () => chunks } })
  } finally {
    // Releases the decoder. It may be waiting for the client, so this may take long.
    chunks.return?.().catch(() => undefined)
  }
}

async function respondTo<C>(upload: KeyedUpload<C>): Promise<HttpResponse> {
  const { endpoints, request } = upload
  const progress = endpoints.progressOf(request)
  const offset = readOffset(request)
  let { body } = upload
  let asks = false
  if (offset !== undefined) {
    const found = await peek(body)
    body = found.body
    const kept = await readKept(progress)
    const isLast = lengthOf(request) === offset && offset === kept.position.byte
    asks = found.isEmpty && !isLast
    if (asks && !kept.isComplete) return await answerOrPosition(progress, kept)
  }
  const run = new Run(upload, progress, body, offset)
  try {
    const response = await endpoints.answerOnce(request, { streamed: true }, (began) => (
      asks ? run.repeat(began) : run.work(began)
    ))
    // The answer of an earlier request is for the same bytes only.
    if (!run.hasBegun && !asks) await compared(body, await readKept(progress), offset ?? 0)
    return response
  } catch (error) {
    throw run.isOther ? httpError('idempotency_key_reused') : error
  }
}

/**
 * Returns the answer if the work of the key has ended without progress: the upload was small, or
 * it has failed.
 *
 * @throws {HttpError} 409 `upload_incomplete`: it has not ended, or is unknown.
 */
async function answerOrPosition(progress: Progress, kept: KeptUpload): Promise<HttpResponse> {
  const answer = await progress.answer()
  if (answer) return answer
  throw incomplete(kept)
}

interface Answer {
  readonly response: HttpResponse
}

/** The place at which a request begins. */
type Start = Pick<Resumption, 'from' | 'previous'>

/** One request that holds the claim of its key. */
class Run<C> {
  hasBegun = false
  /** The bytes are not those of the earlier requests. */
  isOther = false

  constructor(
    private readonly upload: KeyedUpload<C>, private readonly progress: Progress,
    private readonly body: AsyncIterable<Uint8Array>, private readonly offset: number | undefined,
  ) {}

  /** Writes the records that are missing. */
  async work(began: () => void): Promise<Answer> {
    this.hasBegun = true
    const kept = await readKept(this.progress)
    const rest = await this.restOf(kept)
    if (kept.isComplete) return this.answer(began, kept)
    const start = await this.startOf(kept)
    this.continueReport(start.from)
    try {
      await this.ingest(rest, kept, start)
    } catch (error) {
      const { code, status } = readFailure(error)
      // The claim was lost, and another request continues the upload.
      if (code === 'idempotent_request_running' || isReplaced(error)) throw incomplete(await readKept(this.progress))
      // An upload that broke is continued. Any other error after a write is the answer to all.
      const isBroken = BROKEN.has(code) || status === 503
      if (this.upload.report.total > 0 && !isBroken) began()
      throw this.upload.withReport(error)
    }
    began()
    return { response: this.upload.respond() }
  }

  /** Answers for a complete upload whose process died before it stored the answer. */
  async repeat(began: () => void): Promise<Answer> {
    this.hasBegun = true
    return this.answer(began, await readKept(this.progress))
  }

  private answer(began: () => void, kept: KeptUpload): Answer {
    if (!kept.isComplete) throw incomplete(kept)
    this.continueReport(kept.position)
    began()
    return { response: this.upload.respond() }
  }

  /**
   * Returns the position at which this request begins. The cursor of the application may be one
   * batch ahead of the stored position, because a process died between the two writes.
   */
  private async startOf({ position, uploadId }: KeptUpload): Promise<Start> {
    const { resume } = this.upload
    const previous = uploadId === undefined ? undefined : await resume?.(uploadId) ?? undefined
    if (previous === undefined) return { from: position, previous }
    const { done, succeeded, failed, errors } = fromCursor(previous)
    if (done <= position.done) return { from: position, previous }
    // The client sends the bytes of that batch again. Its lines are read and skipped.
    return { from: { ...position, done, succeeded, failed, errors }, previous }
  }

  private continueReport({ succeeded, failed, errors }: UploadPosition): void {
    this.upload.report.continueFrom(succeeded, failed, errors)
  }

  /** Returns the bytes after those that are committed. */
  private async restOf(kept: KeptUpload): Promise<AsyncIterable<Uint8Array>> {
    const { body, offset } = this
    if (offset !== undefined && !kept.isComplete) {
      if (offset !== kept.position.byte) throw incomplete(kept)
      return body
    }
    try {
      return await compared(body, kept, offset ?? 0)
    } catch (error) {
      if (readFailure(error).code !== 'idempotency_key_reused') throw error
      this.isOther = true
      // Releases the claim. The client gets the error above.
      throw incomplete(kept)
    }
  }

  private async ingest(
    rest: AsyncIterable<Uint8Array>, kept: KeptUpload, start: Start,
  ): Promise<void> {
    const { upload } = this
    const { position, segments } = kept
    if (segments.length >= MAX_SEGMENTS) throw tooManyParts()
    const identified = await this.identify(kept)
    const digest = new SegmentDigest(position.byte)
    const save = (next: UploadPosition, own: Segment | undefined, isComplete: boolean) => {
      const all = own === undefined ? segments : [...segments, own]
      return this.save({ ...identified, position: next, segments: all, isComplete })
    }
    const commit = async (next: UploadPosition): Promise<StoredErrors> => {
      await save(next, digest.until(next.byte), false)
      return { stored: 0, parts: [] }
    }
    await upload.ingest(digest.of(rest), { ...start, commit }, identified.uploadId)
    const last = digest.untilLast()
    const { summary: { succeeded, failed }, errors } = upload.report
    const end = { ...position, byte: last?.end ?? position.byte, succeeded, failed, errors }
    await save(end, last, true)
  }

  /** Stores an id for the upload before its first batch is written, if it has a cursor. */
  private async identify(kept: KeptUpload): Promise<KeptUpload> {
    if (this.upload.resume === undefined || kept.uploadId !== undefined) return kept
    const identified = { ...kept, uploadId: newId() }
    await this.save(identified)
    return identified
  }

  private save(state: KeptUpload): Promise<void> {
    return this.progress.save(JSON.stringify(state), state.isComplete)
  }
}

/**
 * Returns the rest of a body after the bytes that are committed. A complete upload has no rest.
 *
 * @throws {HttpError} 422 `idempotency_key_reused`: the bytes are others
 */
async function compared(
  body: AsyncIterable<Uint8Array>, { segments, isComplete }: KeptUpload, from: number,
): Promise<AsyncIterable<Uint8Array>> {
  const isBoundary = from === 0 || segments.some(({ end }) => end === from)
  if (!isBoundary) throw httpError('idempotency_key_reused')
  const rest = await afterSegments(body, segments, from)
  if (isComplete && !(await peek(rest)).isEmpty) throw httpError('idempotency_key_reused')
  return rest
}

function tooManyParts(): Error {
  return httpError('body_too_large', {
    message: `An upload may have ${MAX_SEGMENTS} parts at the most.`,
  })
}

/** Returns whether a body is empty, and the body as a whole. */
async function peek(
  body: AsyncIterable<Uint8Array>,
): Promise<{ readonly isEmpty: boolean; readonly body: AsyncIterable<Uint8Array> }> {
  const chunks = body[Symbol.asyncIterator]()
  for (;;) {
    const next = await chunks.next()
    if (next.done === true) return { isEmpty: true, body: nothing() }
    if (next.value.byteLength > 0) return { isEmpty: false, body: withFirst(next.value, chunks) }
  }
}

async function* nothing(): AsyncGenerator<Uint8Array, void, undefined> {}

/**
 * Returns `Upload-Offset`; `undefined` if the body is the whole upload.
 *
 * @throws {HttpError} 400 `invalid_header`
 */
export function readOffset(request: HttpRequest<unknown>): number | undefined {
  return readInteger(request, 'upload-offset')
}

function lengthOf(request: HttpRequest<unknown>): number | undefined {
  return readInteger(request, 'upload-length')
}

function readInteger(
  { headers }: HttpRequest<unknown>, name: 'upload-offset' | 'upload-length',
): number | undefined {
  const field = headers[name]
  if (field === undefined) return undefined
  if (typeof field === 'string' && /^[0-9]{1,15}$/.test(field)) return Number(field)
  throw httpError('invalid_header', { message: `${name} must be an integer, such as 0.` })
}
