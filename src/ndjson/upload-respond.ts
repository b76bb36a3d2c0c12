import { createHash } from 'node:crypto'
import { decodeBytes } from '../http/body/decode.js'
import { HttpError, httpError } from '../http/errors.js'
import type { HttpRequest, HttpResponse } from '../http/exchange.js'
import { readFailure } from '../http/failure.js'
import { addVary, json, stream, UNBUFFERED } from '../http/respond.js'
import type { RecordRequest } from '../records/background.js'
import { TextSink } from '../records/http.js'
import { Report, type ReportSink } from '../records/report.js'
import { oneOf, readStart, withRest } from '../runtime/text.js'
import { unlessAborted } from '../runtime/timers.js'
import type { KeptResponse } from '../tasks/http/endpoints.js'
import type { UploadItem, UploadResult } from '../wire/report.js'
import type { UploadAsked, UploadSettings, WriteContext } from './upload-options.js'
import { messageOf, readAll, reportSettings, writeLines } from './upload-run.js'

export const JSON_TYPE = 'application/json'

export interface DirectUpload {
  readonly coding: string
  readonly isDry: boolean
  readonly report: Report
  readonly sink: TextSink | LineSink
  readonly write: (
    bytes: AsyncIterable<Uint8Array>, signal: AbortSignal,
  ) => AsyncGenerator<void, void, undefined>
}

export function directUpload<T>(
  request: HttpRequest<unknown>, settings: UploadSettings<T>,
  { coding, resultType, isDry }: UploadAsked,
  origin: Pick<WriteContext, 'owner' | 'tenant' | 'context'>,
): DirectUpload {
  const streamResults = resultType !== JSON_TYPE
  const sink = streamResults ? new LineSink(resultType) : new TextSink()
  const report = new Report(sink, reportSettings(settings, streamResults))
  const write: DirectUpload['write'] = (bytes, signal) => {
    const context = { ...origin, taskId: undefined, signal }
    const body = decodeBytes(bytes, coding, settings.limits, request)
    return writeLines(body, { settings, report, context, streamResults, isDry })
  }
  return { coding, isDry, report, sink, write }
}

class LineSink implements ReportSink {
  readonly separator = '\n'
  private text = ''

  constructor(readonly type: string) {}

  add(items: string): void { this.text += `${items}\n` }
  restart(): void { this.text = '' }

  take(): string {
    const { text } = this
    this.text = ''
    return text
  }
}

export async function respondForKey(
  upload: DirectUpload, request: HttpRequest<unknown>,
  once: NonNullable<RecordRequest<UploadAsked>['once']>,
): Promise<HttpResponse> {
  const chunks = request.body.stream()[Symbol.asyncIterator]()
  try {
    const { bytes, isWhole } = await readStart(chunks, MAX_WHOLE_BYTES)
    if (upload.sink instanceof LineSink && !isWhole) {
      throw httpError('idempotency_needs_async', {
        message: 'An upload of this size can have an Idempotency-Key only if it asks for one report: '
          + 'send "Accept: application/json", or leave the key out.',
      })
    }
    // A later request is compared by all bytes of a small upload, and by the first of a larger one.
    const start = bytes.subarray(0, MAX_WHOLE_BYTES)
    const sha256 = createHash('sha256').update(start).digest('hex')
    const { coding, isDry } = upload
    const form = { coding, ...isDry && { isDry } }
    const identity = isWhole ? { ...form, sha256 } : { ...form, start: sha256 }
    const body = isWhole ? oneOf(bytes) : withRest(bytes, chunks)
    return await once(identity, (began) => readOnce(upload, body, began))
  } finally {
    // Another request may have done the work. Its client may still be sending this body.
    chunks.return?.().catch(() => undefined)
  }
}

/** Reads an upload whose response is stored. Continues if the client disconnects. */
async function readOnce(
  upload: DirectUpload, body: AsyncIterable<Uint8Array>, began: () => void,
): Promise<KeptResponse> {
  const { report, sink } = upload
  const { signal } = new AbortController()
  try {
    if (!(sink instanceof LineSink)) return { response: await respondAtEnd(upload, body, signal) }
    let text = ''
    for await (const lines of resultLines(upload, sink, body, signal)) text += lines
    const headers = { 'content-type': sink.type }
    return { response: withVary({ status: 200, headers, body: text }), short: summaryLine(upload) }
  } finally {
    if (report.total > 0) began()
  }
}

/** Maximum size of an upload with an Idempotency-Key that is read as a whole, in bytes. */
const MAX_WHOLE_BYTES = 1_048_576

/** Responds with the report of all records, or with one line for each during the upload. */
export function respondDirect(
  upload: DirectUpload, body: AsyncIterable<Uint8Array>, signal: AbortSignal,
): Promise<HttpResponse> | HttpResponse {
  const { sink } = upload
  if (!(sink instanceof LineSink)) return respondAtEnd(upload, body, signal)
  const lines = resultLines(upload, sink, body, signal)
  return withVary(stream(200, lines, { ...UNBUFFERED, 'content-type': sink.type }))
}

/** If `signal` aborts, rejects at once, because a policy does not wait for this handler. */
async function respondAtEnd(
  upload: DirectUpload, body: AsyncIterable<Uint8Array>, signal: AbortSignal,
): Promise<HttpResponse> {
  const { sink } = upload
  try {
    await unlessAborted(readAll(upload.write(body, signal)), signal)
  } catch (error) {
    throw withReport(error, upload)
  }
  const items = (sink as TextSink).items<UploadItem>()
  return withVary(json(200, { ...resultOf(upload), items } satisfies UploadResult))
}

async function* resultLines(
  upload: DirectUpload, sink: LineSink, body: AsyncIterable<Uint8Array>, signal: AbortSignal,
): AsyncGenerator<string, void, undefined> {
  const { report } = upload
  let begun = false
  try {
    for await (const _ of upload.write(body, signal)) {
      const lines = sink.take()
      if (lines === '') continue
      begun = true
      yield lines
    }
  } catch (error) {
    // If no line was sent yet, the response can still be an error.
    if (!begun) throw withReport(error, upload)
    const { code, message, expected } = readFailure(error)
    yield `${JSON.stringify({ error: message, code, summary: report.summary })}\n`
    // Reports the error to the application; the binding closes the connection.
    if (!expected) throw error
    return
  }
  yield summaryLine(upload)
}

function summaryLine(upload: DirectUpload): string {
  return `${JSON.stringify(resultOf(upload))}\n`
}

function resultOf({ report, isDry }: DirectUpload): Omit<UploadResult, 'items'> {
  const { summary } = report
  return { message: messageOf(report, isDry), ...isDry && { dryRun: true }, summary }
}

/** Returns the same error with the report of the records that were written before it. */
function withReport(error: unknown, { report, sink }: DirectUpload): unknown {
  if (report.total === 0 || !(sink instanceof TextSink)) return error
  const { status, code, message, details, headers, expected } = readFailure(error)
  return new HttpError(status, code, {
    message, headers, members: { summary: report.summary, items: sink.items() },
    ...details && { details },
    ...!expected && { cause: error },
  })
}

function withVary(response: HttpResponse): HttpResponse {
  addVary(response.headers, 'Accept', 'Prefer')
  return response
}
