import { createHash } from 'node:crypto'
import { decodeBytes, requestCoding } from '../http/body/decode.js'
import { HttpError, httpError } from '../http/errors.js'
import { describe, type Handler, type HttpRequest, type HttpResponse } from '../http/exchange.js'
import { readFailure } from '../http/failure.js'
import { negotiate } from '../http/fields/accept.js'
import { addVary } from '../http/fields/fields.js'
import { parsePrefer } from '../http/fields/prefer.js'
import { json, stream } from '../http/respond.js'
import type { TaskEndpoints } from '../tasks/http/endpoints.js'
import { Ingest } from './ingest.js'
import { checkNdjsonType, NDJSON_TYPE } from './media-type.js'
import { uploadOperation } from './upload-operation.js'
import {
  checkUploadOptions, decodeOptions, type UploadBackgroundOptions, type UploadOptions,
  type UploadTask,
} from './upload-options.js'
import { UploadReport } from './upload-report.js'
import { spooledUpload, type SpooledUpload } from './upload-task.js'

/** An upload that clients may ask to be read in the background. Returned by `ndjsonUpload`. */
export interface BackgroundUpload {
  /** Reads uploads in the background. Pass it to `createTasks` in `definitions`. */
  readonly task: UploadTask
  /**
   * Creates the handler for POST.
   *
   * @param endpoints - the endpoints of the tasks that `task` is defined in
   * @throws {TypeError} `task` is not among the definitions of these tasks.
   */
  handler<C>(endpoints: TaskEndpoints<C>): Handler<C>
}

/**
 * Creates a handler for POST that reads records as NDJSON (SPEC 4.9). Its memory does not grow with
 * the number of records. Each line is one JSON object; a bad line is skipped and counted. Bodies
 * may be coded with gzip, deflate, br, and zstd where Node supports it.
 *
 * Without `background` the result is the handler. With `background` it has two parts: `task` for
 * `createTasks`, and `handler(endpoints)` for the router. A client then chooses with `Prefer:
 * respond-async`: the body is spooled to blobs, answered with 202, and read by the task.
 *
 * The answer is 200 `{ message, summary: { total, succeeded, failed }, errors: [{ line, code,
 * message, excerpt, details? }] }`, even if every line is bad. A client that accepts
 * `application/x-ndjson` receives one line for each record during the upload, `{ line, status, id?,
 * error? }`. The last line is `{ message, summary }`, or `{ error, code, summary }` if the upload
 * ended early. Such a client has to read while it sends.
 *
 * With `background`, requests may have an Idempotency-Key. A direct upload with a key is read
 * completely before any record is written, so it may have 1 MiB; a larger one is a 400
 * `idempotency_needs_async`. Without `background` the key is ignored: use the policy
 * `idempotent()`.
 *
 * Fails with `unsupported_media_type` and `unsupported_content_coding` (415), `body_too_large`
 * (413), `malformed_coding` and `incomplete_body` (400), and with the errors of `write`. If records
 * were written before, the error body has `summary` and `errors`. Nothing is rolled back.
 *
 * @example
 * import { router } from 'longhaul'
 * import { ndjsonUpload } from 'longhaul/ndjson'
 *
 * const upload = ndjsonUpload({
 *   write: async (users) => { console.log(`${users.length} users`) },
 * })
 * export const handler = router({ 'POST /users': upload })
 *
 * @throws {TypeError} An option is unknown or not valid.
 */
export function ndjsonUpload<T = object, C = unknown>(
  options: UploadOptions<T> & { readonly background?: undefined },
): Handler<C>
export function ndjsonUpload<T = object>(
  options: UploadOptions<T> & { readonly background: UploadBackgroundOptions },
): BackgroundUpload
export function ndjsonUpload<T>(options: UploadOptions<T>): BackgroundUpload | Handler {
  checkUploadOptions(options)
  const limits = decodeOptions(options)
  if (options.background === undefined) return uploadHandler(options, limits)
  const spooled = spooledUpload(options, limits, options.background)
  const { task } = spooled
  return {
    task,
    handler<C>(endpoints: TaskEndpoints<C>): Handler<C> {
      if (!endpoints?.tasks) {
        throw new TypeError('ndjsonUpload: handler needs what taskEndpoints returned')
      }
      if (endpoints.tasks.definition(task.name) !== task) {
        throw new TypeError(`ndjsonUpload: the task ${task.name} is not among the definitions`
          + ' of createTasks; add it there')
      }
      return uploadHandler(options, limits, { endpoints, spooled })
    },
  }
}

type Limits = ReturnType<typeof decodeOptions>

interface Background<C> {
  readonly endpoints: TaskEndpoints<C>
  readonly spooled: SpooledUpload
}

function uploadHandler<T, C>(
  options: UploadOptions<T>, limits: Limits, background?: Background<C>,
): Handler<C> {
  const handler = (
    request: HttpRequest<C>,
  ): Promise<HttpResponse> | HttpResponse | undefined => {
    if (request.method !== 'POST') return undefined
    const coding = checkHead(request, limits)
    if (background && parsePrefer(request.headers['prefer']).respondAsync) {
      const { endpoints, spooled } = background
      return endpoints.accept(request, spooled.task, () => spooled.spool(request, coding))
    }
    const upload = directUpload(request, options, limits, coding)
    if (background && request.headers['idempotency-key'] !== undefined) {
      return respondOnce(background.endpoints, request, upload)
    }
    const { report, streamResults } = upload
    const results = upload.read(request.body.stream(), request.signal)
    return streamResults ? respondInLines(results, report) : respondAtEnd(results, report)
  }
  return describe(handler, [uploadOperation(options.schema, background !== undefined)])
}

/** Checks the header fields of an upload. Returns its content coding. */
function checkHead({ headers, body }: HttpRequest<unknown>, { maxBodyBytes }: Limits): string {
  checkNdjsonType(headers)
  // A body that the host has parsed is already decoded.
  const coding = body.parsed === undefined ? requestCoding(headers) : 'identity'
  const length = headers['content-length']
  if (typeof length === 'string' && Number(length) > maxBodyBytes) {
    throw httpError('body_too_large', { message: `The body is larger than ${maxBodyBytes} bytes.` })
  }
  return coding
}

interface DirectUpload {
  readonly coding: string
  readonly report: UploadReport
  /** The client accepts one line for each record. */
  readonly streamResults: boolean
  readonly read: (bytes: AsyncIterable<Uint8Array>, signal: AbortSignal) => AsyncIterable<string>
}

const OFFERS = ['application/json', NDJSON_TYPE]

function directUpload<T>(
  request: HttpRequest<unknown>, options: UploadOptions<T>, limits: Limits, coding: string,
): DirectUpload {
  const report = new UploadReport(options.maxErrors ?? 100)
  const streamResults = negotiate(request.headers['accept'], OFFERS) === NDJSON_TYPE
  return {
    coding, report, streamResults,
    read(bytes, signal) {
      const context = {
        signal, owner: undefined, context: request.context, taskId: undefined,
      }
      const ingest = new Ingest(options, report, context, streamResults)
      return ingest.run(decodeBytes(bytes, coding, limits))
    },
  }
}

/**
 * Answers an upload with an Idempotency-Key. Reads the whole body first, because its digest must be
 * known before any record is written. The work continues if the client disconnects.
 */
async function respondOnce<C>(
  endpoints: TaskEndpoints<C>, request: HttpRequest<C>, upload: DirectUpload,
): Promise<HttpResponse> {
  const { coding, report, streamResults } = upload
  const bytes = await readWhole(request)
  const body = { coding, sha256: createHash('sha256').update(bytes).digest('hex') }
  return endpoints.answerOnce(request, body, async (began) => {
    const results = upload.read(oneOf(bytes), new AbortController().signal)
    try {
      if (!streamResults) return { response: await respondAtEnd(results, report) }
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

/** Maximum size of a direct upload with an Idempotency-Key, in bytes. */
const MAX_KEYED_BYTES = 1_048_576

async function readWhole({ body }: HttpRequest<unknown>): Promise<Uint8Array> {
  const pieces: Uint8Array[] = []
  let size = 0
  for await (const piece of body.stream()) {
    size += piece.byteLength
    if (size > MAX_KEYED_BYTES) {
      throw httpError('idempotency_needs_async', {
        message: 'An upload of this size can have an Idempotency-Key only when it is read in the '
          + 'background: send "Prefer: respond-async", or leave the key out.',
      })
    }
    // A copy, because a source may reuse its chunk.
    pieces.push(Uint8Array.prototype.slice.call(piece))
  }
  return Buffer.concat(pieces)
}

async function* oneOf(bytes: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
  yield bytes
}

async function respondAtEnd(
  results: AsyncIterable<string>, report: UploadReport,
): Promise<HttpResponse> {
  try {
    for await (const _ of results);
  } catch (error) {
    throw withReport(error, report)
  }
  return withVary(json(200, report.result))
}

function respondInLines(results: AsyncIterable<string>, report: UploadReport): HttpResponse {
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
