import { createHash } from 'node:crypto'
import { negotiate } from '../http/fields/accept.js'
import { decodeBytes, requestCoding } from '../http/body/decode.js'
import { HttpError, httpError } from '../http/errors.js'
import { describe, type Handler, type HttpRequest, type HttpResponse } from '../http/exchange.js'
import { readFailure } from '../http/failure.js'
import { addVary } from '../http/fields/fields.js'
import { checkNames } from '../runtime/option-names.js'
import { parsePrefer } from '../http/fields/prefer.js'
import { json, stream } from '../http/respond.js'
import type { TaskEndpoints } from '../tasks/http/endpoints.js'
import { Intake } from './intake.js'
import { checkNdjsonType, NDJSON_TYPE } from './media-type.js'
import { UploadReport } from './report.js'
import { uploadOperation } from './upload-operation.js'
import { checkUpload, decodeOptions, type UploadOptions } from './upload-options.js'

/** The largest body of a direct upload with an Idempotency-Key, in bytes. */
const MAX_KEYED_BYTES = 1_048_576
const OFFERS = ['application/json', NDJSON_TYPE]

/**
 * A handler for POST that takes records as NDJSON (SPEC 4.9), in memory that does not grow with
 * their number. Each line is one object; a bad one is skipped and counted. Bodies may be coded with
 * gzip (several members too), deflate, br, and zstd where Node has it.
 *
 * Answers 200 `{ message, summary: { total, succeeded, failed }, errors: [{ line, code, message,
 * excerpt, details? }] }`, also when every line was bad. A client that asks for
 * `application/x-ndjson` gets a line for each record while the upload goes on, `{ line, status,
 * id?, error? }`, and at last `{ message, summary }`, or `{ error, code, summary }` when it ended
 * too early; such a client has to read while it sends.
 *
 * Fails with `unsupported_media_type` and `unsupported_content_coding` (415), `body_too_large`
 * (413), `malformed_coding` and `incomplete_body` (400), and with what `write` throws. When records
 * were taken before that, `summary` and `errors` are in the error body. Nothing is taken back.
 *
 * @throws {TypeError} when an option makes no sense
 */
export function ndjsonUpload<T = object, C = unknown>(options: UploadOptions<T, C>): Handler<C> {
  checkUpload('ndjsonUpload', options)
  const limits = decodeOptions('ndjsonUpload', options)
  const { background, maxErrors = 100 } = options
  if (background) checkNames('ndjsonUpload: background', background, { endpoints: 0, task: 0 })
  const handler = (request: HttpRequest<C>): Promise<HttpResponse> | HttpResponse | undefined => {
    if (request.method !== 'POST') return undefined
    const { headers } = request
    checkNdjsonType(headers)
    // What the host's own parser left is decoded already.
    const coding = request.body.parsed === undefined ? requestCoding(headers) : 'identity'
    const length = headers['content-length']
    if (typeof length === 'string' && Number(length) > limits.maxBytes) {
      throw httpError('body_too_large', { message: `The body is larger than ${limits.maxBytes} bytes.` })
    }
    if (background && parsePrefer(headers['prefer']).respondAsync) {
      const { endpoints, task } = background
      return endpoints.accept(request, task, () => task.spool(request, coding, limits.maxBytes))
    }
    const streaming = negotiate(headers['accept'], OFFERS) === NDJSON_TYPE
    const report = new UploadReport(maxErrors)
    const read = (bytes: AsyncIterable<Uint8Array>, signal: AbortSignal) => (
      new Intake(options, report, { signal, owner: undefined, context: request.context }, streaming).run(decodeBytes(bytes, coding, limits))
    )
    if (background && headers['idempotency-key'] !== undefined) {
      return answerOnce(background.endpoints, request, { coding, report, streaming, read })
    }
    const results = read(request.body.stream(), request.signal)
    return streaming ? answerInLines(results, report) : answerAtEnd(results, report)
  }
  return describe(handler, [uploadOperation(options.record, background !== undefined)])
}

interface KeyedUpload {
  readonly coding: string
  readonly report: UploadReport
  readonly streaming: boolean
  readonly read: (bytes: AsyncIterable<Uint8Array>, signal: AbortSignal) => AsyncIterable<string>
}

/**
 * Reads the body as a whole first, because what was sent has to be known before any of it is
 * written. The work does not follow its client.
 */
async function answerOnce<C>(
  endpoints: TaskEndpoints<C>, request: HttpRequest<C>, { coding, report, streaming, read }: KeyedUpload,
): Promise<HttpResponse> {
  const bytes = await wholeBody(request)
  const body = { coding, sha256: createHash('sha256').update(bytes).digest('hex') }
  return endpoints.answerOnce(request, body, async (began) => {
    const results = read(oneOf(bytes), new AbortController().signal)
    try {
      if (!streaming) return { response: await answerAtEnd(results, report) }
      let text = ''
      for await (const line of resultLines(results, report)) text += line
      return { response: varied({ status: 200, headers: { 'content-type': NDJSON_TYPE }, body: text }), short: lastLine(report) }
    } finally {
      if (report.total > 0) began()
    }
  })
}

async function wholeBody({ body }: HttpRequest<unknown>): Promise<Uint8Array> {
  const pieces: Uint8Array[] = []
  let size = 0
  for await (const piece of body.stream()) {
    size += piece.byteLength
    if (size > MAX_KEYED_BYTES) {
      throw httpError('idempotency_needs_async', {
        message: 'An upload of this size can have an Idempotency-Key only when it is read in the background: '
          + 'send "Prefer: respond-async", or leave the key out.',
      })
    }
    // A copy: a source may use its chunk again.
    pieces.push(Uint8Array.prototype.slice.call(piece))
  }
  return Buffer.concat(pieces)
}

async function* oneOf(bytes: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
  yield bytes
}

async function answerAtEnd(results: AsyncIterable<string>, report: UploadReport): Promise<HttpResponse> {
  try {
    for await (const _ of results);
  } catch (error) {
    throw withReport(error, report)
  }
  return varied(json(200, report.result))
}

function answerInLines(results: AsyncIterable<string>, report: UploadReport): HttpResponse {
  return varied(stream(200, resultLines(results, report), { 'content-type': NDJSON_TYPE }))
}

async function* resultLines(results: AsyncIterable<string>, report: UploadReport): AsyncGenerator<string, void, undefined> {
  let begun = false
  try {
    for await (const text of results) {
      begun = true
      yield text
    }
  } catch (error) {
    // The answer has not begun, so it can still be an error.
    if (!begun) throw withReport(error, report)
    const { code, message, expected } = readFailure(error)
    yield `${JSON.stringify({ error: message, code, summary: report.summary })}\n`
    // The host has to hear of it; the connection is cut.
    if (!expected) throw error
    return
  }
  yield lastLine(report)
}

function lastLine({ message, summary }: UploadReport): string {
  return `${JSON.stringify({ message, summary })}\n`
}

/** The same failure, with what was taken before it. */
function withReport(error: unknown, report: UploadReport): unknown {
  if (report.total === 0) return error
  const { status, code, message, details, headers, expected } = readFailure(error)
  const { summary, errors } = report
  return new HttpError(status, code, {
    message, headers, members: { summary, errors }, ...details && { details }, ...!expected && { cause: error },
  })
}

function varied(response: HttpResponse): HttpResponse {
  addVary(response.headers, 'Accept', 'Prefer')
  return response
}
