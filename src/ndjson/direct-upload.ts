import { createHash } from 'node:crypto'
import { decodeBytes } from '../http/body/decode.js'
import { HttpError, httpError } from '../http/errors.js'
import type { HttpRequest, HttpResponse } from '../http/exchange.js'
import { readFailure } from '../http/failure.js'
import { negotiate } from '../http/fields/accept.js'
import { addVary, json, stream } from '../http/respond.js'
import type { KeptResponse, TaskEndpoints } from '../tasks/http/endpoints.js'
import { Ingest } from './ingest.js'
import { NDJSON_TYPE } from './media-type.js'
import type { decodeOptions, UploadOptions, WriteContext } from './upload-options.js'
import { UploadReport } from './upload-report.js'

type Limits = ReturnType<typeof decodeOptions>
type Origin = Pick<WriteContext, 'owner' | 'context'>

/** One upload that is read while its client waits for the response. */
export interface DirectUpload {
  readonly coding: string
  readonly report: UploadReport
  /** The client accepts one line for each record. */
  readonly streamResults: boolean
  /** Reads records from the body. */
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
  const read: DirectUpload['read'] = (bytes, signal) => {
    const context = { ...origin, taskId: undefined, signal }
    const body = decodeBytes(bytes, coding, limits, request)
    return new Ingest(options, report, context, streamResults).run(body)
  }
  return { coding, report, streamResults, read }
}

/**
 * Responds to an upload with an Idempotency-Key, and does its work once. A small upload is read
 * before any record is written, and the work continues if the client disconnects. A larger one is
 * read while it arrives. If it breaks after records were written, the response is the error with
 * the report of these records, and a later request with the key gets the same response.
 */
export async function respondOnce<C>(
  endpoints: TaskEndpoints<C>, request: HttpRequest<C>, upload: DirectUpload,
): Promise<HttpResponse> {
  const chunks = request.body.stream()[Symbol.asyncIterator]()
  try {
    const { bytes, isWhole } = await readStart(chunks)
    if (upload.streamResults && !isWhole) {
      throw httpError('idempotency_needs_async', {
        message: 'An upload of this size can have an Idempotency-Key only if it asks for one report: '
          + 'send "Accept: application/json", or leave the key out.',
      })
    }
    // A later request is compared by the whole of a small upload, and by the start of a larger one.
    const start = bytes.subarray(0, MAX_WHOLE_BYTES)
    const sha256 = createHash('sha256').update(start).digest('hex')
    const { coding } = upload
    const identity = isWhole ? { coding, sha256 } : { coding, start: sha256 }
    const body = isWhole ? oneOf(bytes) : withFirst(bytes, chunks)
    return await endpoints.respondOnce(request, identity, (began) => readOnce(upload, body, began))
  } finally {
    // Another request may have done the work. Its client may still be sending this body.
    chunks.return?.().catch(() => undefined)
  }
}

/** Reads an upload whose response is kept. A batch is written to its end if the client disconnects. */
async function readOnce(
  { read, report, streamResults }: DirectUpload, body: AsyncIterable<Uint8Array>,
  began: () => void,
): Promise<KeptResponse> {
  const { signal } = new AbortController()
  const results = read(body, signal)
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

/** Yields a chunk that was read, and the chunks after it. */
async function* withFirst(
  first: Uint8Array, chunks: AsyncIterator<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  yield first
  yield* { [Symbol.asyncIterator]: () => chunks }
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
