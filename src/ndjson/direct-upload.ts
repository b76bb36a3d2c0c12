import { createHash } from 'node:crypto'
import { decodeBytes } from '../http/body/decode.js'
import { HttpError, httpError } from '../http/errors.js'
import type { HttpRequest, HttpResponse } from '../http/exchange.js'
import { readFailure } from '../http/failure.js'
import { negotiate } from '../http/fields/accept.js'
import { addVary } from '../http/fields/fields.js'
import { json, stream } from '../http/respond.js'
import type { TaskEndpoints } from '../tasks/http/endpoints.js'
import { Ingest, type Resumption } from './ingest.js'
import { readOffset, respondKeyed, type KeyedUpload } from './keyed-upload.js'
import { NDJSON_TYPE } from './media-type.js'
import type { decodeOptions, UploadOptions, WriteContext } from './upload-options.js'
import { UploadReport } from './upload-report.js'
import { withFirst } from './upload-segments.js'

type Limits = ReturnType<typeof decodeOptions>
type Origin = Pick<WriteContext, 'owner' | 'context'>

/** One upload that is read while its client waits for the answer. */
export interface DirectUpload {
  readonly coding: string
  readonly report: UploadReport
  /** The client accepts one line for each record. */
  readonly streamResults: boolean
  /** Decodes a body that begins at a byte of the upload. */
  readonly decode: (
    bytes: AsyncIterable<Uint8Array>, offset: number,
  ) => AsyncIterable<Uint8Array>
  /** Reads records from a decoded body. `uploadId` is set if the application stores a cursor. */
  readonly ingest: (
    body: AsyncIterable<Uint8Array>, signal: AbortSignal, resumption?: Resumption,
    uploadId?: string,
  ) => AsyncIterable<string>
  /** Returns the cursor that the application has stored; missing if it stores none. */
  readonly resume: KeyedUpload<unknown>['resume']
  /** Reads records from a whole body. */
  readonly read: (bytes: AsyncIterable<Uint8Array>, signal: AbortSignal) => AsyncIterable<string>
}

const OFFERS = ['application/json', NDJSON_TYPE]

/**
 * Returns the parts of a direct upload.
 *
 * @param coding - content coding of the body
 * @param origin - owner and context of the records
 */
export function directUpload<T>(
  request: HttpRequest<unknown>, options: UploadOptions<T>, limits: Limits, coding: string,
  origin: Origin,
): DirectUpload {
  const report = new UploadReport(options.maxErrors ?? 100)
  const streamResults = negotiate(request.headers['accept'], OFFERS) === NDJSON_TYPE
  const decode: DirectUpload['decode'] = (bytes, offset) => (
    decodeBytes(bytes, coding, limitsAfter(limits, offset, coding), request)
  )
  const context = { ...origin, taskId: undefined }
  const ingest: DirectUpload['ingest'] = (body, signal, resumption, uploadId) => {
    const place = { ...context, signal, uploadId }
    return new Ingest(options, report, place, streamResults, resumption).run(body)
  }
  const { resume } = options
  return {
    coding, report, streamResults, decode, ingest,
    resume: resume && ((uploadId) => (
      resume({ ...context, signal: new AbortController().signal, uploadId })
    )),
    read: (bytes, signal) => ingest(decode(bytes, 0), signal),
  }
}

/**
 * Returns the limits of the part of an upload that begins at `offset`, a decoded byte. How many
 * bytes a coded upload had before is not known.
 */
function limitsAfter(
  { maxBodyBytes, maxDecodedBytes, ...rest }: Limits, offset: number, coding: string,
): Limits {
  const left = (bytes: number): number => Math.max(0, bytes - offset)
  return {
    ...rest, maxDecodedBytes: left(maxDecodedBytes),
    maxBodyBytes: coding === 'identity' ? left(maxBodyBytes) : maxBodyBytes,
  }
}

/**
 * Answers an upload with an Idempotency-Key. A small one is read before any record is written, and
 * the work continues if the client disconnects. A larger one is read while it arrives, and a later
 * request continues it. If the application stores a cursor, a later request continues a small one
 * too, because its process may die.
 */
export async function respondOnce<C>(
  endpoints: TaskEndpoints<C>, request: HttpRequest<C>, upload: DirectUpload,
): Promise<HttpResponse> {
  const offset = readOffset(request)
  if (offset !== undefined && offset > 0) return respondInParts(endpoints, request, upload, offset)
  const chunks = request.body.stream()[Symbol.asyncIterator]()
  const { bytes, isWhole } = await readStart(chunks)
  // A larger upload with this key may have broken. Then these bytes are compared with it.
  const isSmall = isWhole && (upload.resume === undefined || upload.streamResults)
    && await endpoints.progressOf(request).read() === undefined
  if (isSmall && offset === undefined) return respondWhole(endpoints, request, upload, bytes)
  try {
    return await respondInParts(endpoints, request, upload, 0, withFirst(bytes, chunks))
  } catch (error) {
    const isOther = readFailure(error).code === 'idempotency_key_reused'
    if (!isOther || !isSmall || bytes.byteLength === 0) throw error
    // A small upload was answered before, and the client sends all bytes after `Upload-Offset: 0`.
    return respondWhole(endpoints, request, upload, bytes)
  }
}

async function respondWhole<C>(
  endpoints: TaskEndpoints<C>, request: HttpRequest<C>, upload: DirectUpload, bytes: Uint8Array,
): Promise<HttpResponse> {
  const { coding, report, streamResults } = upload
  const body = { coding, sha256: createHash('sha256').update(bytes).digest('hex') }
  return endpoints.answerOnce(request, body, async (began) => {
    const { signal } = new AbortController()
    const results = upload.read(oneOf(bytes), signal)
    try {
      if (!streamResults) return { response: await respondAtEnd(results, report, signal) }
      let text = ''
      for await (const line of resultLines(results, report)) text += line
      const headers = { 'content-type': NDJSON_TYPE }
      return {
        response: withVary({ status: 200, headers, body: text }),
        short: summaryLine(report),
      }
    } finally {
      if (report.total > 0) began()
    }
  })
}

/** @param offset - byte of the upload at which the body begins */
function respondInParts<C>(
  endpoints: TaskEndpoints<C>, request: HttpRequest<C>, upload: DirectUpload, offset: number,
  bytes: AsyncIterable<Uint8Array> = request.body.stream(),
): Promise<HttpResponse> {
  const { report, resume } = upload
  if (upload.streamResults) {
    throw httpError('idempotency_needs_async', {
      message: 'An upload of this size can have an Idempotency-Key only if it asks for one report: '
        + 'send "Accept: application/json", or leave the key out.',
    })
  }
  return respondKeyed({
    endpoints, request, report, resume, body: upload.decode(bytes, offset),
    ingest: async (body, resumption, uploadId) => {
      // A batch is written to its end if the client disconnects, so its position is committed.
      const { signal } = new AbortController()
      for await (const _ of upload.ingest(body, signal, resumption, uploadId));
    },
    respond: () => withVary(json(200, report.result)),
    withReport: (error) => withReport(error, report),
  })
}

/** Maximum size of an upload with an Idempotency-Key that is read as a whole, in bytes. */
const MAX_WHOLE_BYTES = 1_048_576

/** Reads a body until it ends or is too large to be read as a whole. */
async function readStart(
  chunks: AsyncIterator<Uint8Array>,
): Promise<{ readonly bytes: Uint8Array; readonly isWhole: boolean }> {
  const pieces: Uint8Array[] = []
  for (let size = 0; size <= MAX_WHOLE_BYTES;) {
    const next = await chunks.next()
    if (next.done === true) return { bytes: Buffer.concat(pieces), isWhole: true }
    size += next.value.byteLength
    // A copy, because a source may reuse its chunk.
    pieces.push(Uint8Array.prototype.slice.call(next.value))
  }
  return { bytes: Buffer.concat(pieces), isWhole: false }
}

async function* oneOf(bytes: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
  yield bytes
}

/**
 * Responds with the report of all records. If `signal` aborts, rejects at once with the report of
 * the records that were written until then, because a policy does not wait for this handler.
 */
export async function respondAtEnd(
  results: AsyncIterable<string>, report: UploadReport, signal: AbortSignal,
): Promise<HttpResponse> {
  try {
    await unlessAborted(readAll(results), signal)
  } catch (error) {
    throw withReport(error, report)
  }
  return withVary(json(200, report.result))
}

async function readAll(results: AsyncIterable<string>): Promise<void> {
  for await (const _ of results);
}

function unlessAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const stop = (): void => { reject(signal.reason as Error) }
    signal.addEventListener('abort', stop, { once: true })
    work.then(resolve, reject).finally(() => { signal.removeEventListener('abort', stop) })
  })
}

/** Answers with one line for each record, while the upload arrives. */
export function respondInLines(results: AsyncIterable<string>, report: UploadReport): HttpResponse {
  const lines = resultLines(results, report)
  return withVary(stream(200, lines, { 'content-type': NDJSON_TYPE }))
}

async function* resultLines(
  results: AsyncIterable<string>, report: UploadReport,
): AsyncGenerator<string, void, undefined> {
  let begun = false
  try {
    for await (const text of results) {
      begun = true
      yield text
    }
  } catch (error) {
    // If no line was sent yet, the answer can still be an error.
    if (!begun) throw withReport(error, report)
    const { code, message, expected } = readFailure(error)
    yield `${JSON.stringify({ error: message, code, summary: report.summary })}\n`
    // Reports the error to the application; the binding closes the connection.
    if (!expected) throw error
    return
  }
  yield summaryLine(report)
}

function summaryLine({ message, summary }: UploadReport): string {
  return `${JSON.stringify({ message, summary })}\n`
}

/** Returns the same error with the report of the records that were written before it. */
function withReport(error: unknown, report: UploadReport): unknown {
  if (report.total === 0) return error
  const { status, code, message, details, headers, expected } = readFailure(error)
  const { summary, errors } = report
  return new HttpError(status, code, {
    message, headers, members: { summary, errors },
    ...details && { details },
    ...!expected && { cause: error },
  })
}

function withVary(response: HttpResponse): HttpResponse {
  addVary(response.headers, 'Accept', 'Prefer')
  return response
}
