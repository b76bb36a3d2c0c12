import { createHash } from 'node:crypto'
import { decodeBytes } from '../http/body/decode.js'
import { isWholeNumber, isJsonObject } from '../http/body/json.js'
import { HttpError, httpError } from '../http/errors.js'
import type { HttpRequest, HttpResponse } from '../http/exchange.js'
import { readFailure } from '../http/failure.js'
import { addVary, json, stream, UNBUFFERED } from '../http/respond.js'
import type { RecordRequest } from '../records/background.js'
import { batchesOf, type Block, type Judge } from '../records/batch.js'
import { errorReports, type RecordErrorPlace } from '../records/error-reports.js'
import { TextSink } from '../records/http.js'
import { Report, type ReportSettings, type ReportSink } from '../records/report.js'
import { writeRecords, type Continuation, type Write } from '../records/write-loop.js'
import { oneOf, readStart, withRest } from '../runtime/text.js'
import { unlessAborted } from '../runtime/timers.js'
import { judge } from '../schema/schema.js'
import type { KeptResponse } from '../tasks/http/endpoints.js'
import { LineReader, readBatches } from './line-reader.js'
import type { UploadItem, UploadResult } from '../wire/report.js'
import type { UploadAsked, UploadSettings, WriteContext } from './upload-options.js'
import { toLines } from './upload-source.js'
import { readOutcomes } from './write-outcomes.js'

/** Place in a body at which a line begins. */
export interface LinePlace {
  readonly byte: number
  readonly lines: number
}

export const JSON_TYPE = 'application/json'
/** After this many bytes, a report lists errors with their code only. */
const MAX_REPORT_BYTES = 524_288
/** Bytes of blank lines after which a task commits its position. */
const MAX_QUIET_BYTES = 1_048_576
/** Number of records that an asynchronous schema validates at the same time. */
const CONCURRENCY = 8

export const isLinePlace = (place: unknown): place is LinePlace => (
  isJsonObject(place) && isWholeNumber(place['byte']) && isWholeNumber(place['lines'])
)

export function placeOf(from: { readonly place?: object | undefined } | undefined): LinePlace {
  return isLinePlace(from?.place) ? from.place : { byte: 0, lines: 0 }
}

interface Upload<T> {
  readonly settings: UploadSettings<T>
  readonly report: Report
  readonly context: Omit<WriteContext, 'lines' | 'cursor' | 'previous'>
  readonly streamResults?: boolean
  /** The attempt of a task. */
  readonly place?: RecordErrorPlace
  readonly from?: { readonly place?: object | undefined, readonly done: number }
  readonly continuation?: Continuation
}

/**
 * Reads the records of a decoded body and passes them to `write` in batches. Yields after each
 * batch. The body begins at `from`, unless it is that of a source.
 */
export function writeLines<T>(
  body: AsyncIterable<Uint8Array>, upload: Upload<T>,
): AsyncGenerator<void, void, undefined> {
  const { settings, report, context, from, continuation } = upload
  const { source } = settings
  const bytes = source ? toLines(source, body, placeOf(from).byte) : body
  const batches = batchesOf<T, LinePlace>(lineBlocks(bytes, upload), {
    batchSize: settings.batchSize, concurrency: CONCURRENCY, judge: judgeRecords(settings),
    done: from?.done ?? 0,
  })
  const reportError = errorReports(settings.onError, { signal: context.signal, place: upload.place })
  const write: Write<T> = async (records, place) => {
    const { length } = records
    // The errors among the outcomes are reported when `write` returns them.
    const cursor: WriteContext['cursor'] = (outcomes) => (
      place.cursor(readOutcomes(outcomes, length, () => undefined))
    )
    const outcomes = await settings.write(records, { ...context, ...place, cursor })
    return readOutcomes(outcomes, length, reportError)
  }
  return writeRecords({ report, continuation, call: context, write }, batches)
}

function judgeRecords<T>({ schema }: UploadSettings<T>): Judge<T> | undefined {
  if (schema === undefined) return undefined
  const verdictOf = (judged: Awaited<ReturnType<typeof judge<T>>>) => ('details' in judged
    ? {
      status: 400,
      error: {
        code: 'record_invalid', message: 'The record is not valid.', details: judged.details,
      },
    }
    : judged)
  return (record) => {
    const judging = judge(schema, record)
    return judging instanceof Promise ? judging.then(verdictOf) : verdictOf(judging)
  }
}

async function* lineBlocks<T>(
  bytes: AsyncIterable<Uint8Array>, { settings, streamResults = false, from, continuation }: Upload<T>,
): AsyncGenerator<Block<LinePlace>, void, undefined> {
  const { maxErrors, maxLineBytes, maxLines } = settings
  // Each bad line has a line in the response, or a later run may begin behind it.
  const describesAll = streamResults || continuation !== undefined
  const reader = new LineReader({ maxErrors: describesAll ? Infinity : maxErrors, maxLineBytes })
  let place = placeOf(from)
  reader.continueAt(place.byte, place.lines)
  let byte = reader.byteCount
  const limits = { maxQuietBytes: MAX_QUIET_BYTES, maxLines }
  for await (const { records, lines, errors, failed, isOver } of readBatches(bytes, reader, limits)) {
    const rejected = errors.map(({ line, code, message, excerpt, details }) => (
      { number: line, outcome: { status: 400, error: { code, message, details } }, excerpt }
    ))
    yield {
      records, numbers: lines, rejected, undescribed: failed - errors.length,
      // A line that is too long is rejected before its end.
      last: Math.max(reader.lineCount, rejected.at(-1)?.number ?? 0), place, bytes: reader.byteCount - byte,
      isFlushed: streamResults || isOver === true,
    }
    if (isOver) {
      throw httpError('body_too_large', { message: `The body has more than ${maxLines} lines.` })
    }
    place = { byte: reader.lineStart, lines: reader.lineCount }
    byte = reader.byteCount
  }
}

export function reportSettings<T>(
  { maxErrors }: UploadSettings<T>, streamResults = false,
): ReportSettings {
  return {
    numbers: 'line', status: 200, maxBytes: streamResults ? Infinity : MAX_REPORT_BYTES,
    ...streamResults
      ? { selection: 'all' } : { selection: 'failed', maxItems: maxErrors },
  }
}

export function messageOf({ total, succeeded, failed }: Report): string {
  const records = `${total} ${total === 1 ? 'record' : 'records'}`
  return `Read ${records}: ${succeeded} succeeded, ${failed} failed.`
}

export interface DirectUpload {
  readonly coding: string
  readonly report: Report
  readonly sink: TextSink | LineSink
  readonly write: (
    bytes: AsyncIterable<Uint8Array>, signal: AbortSignal,
  ) => AsyncGenerator<void, void, undefined>
}

export function directUpload<T>(
  request: HttpRequest<unknown>, settings: UploadSettings<T>, { coding, resultType }: UploadAsked,
  origin: Pick<WriteContext, 'owner' | 'context'>,
): DirectUpload {
  const streamResults = resultType !== JSON_TYPE
  const sink = streamResults ? new LineSink(resultType) : new TextSink()
  const report = new Report(sink, reportSettings(settings, streamResults))
  const write: DirectUpload['write'] = (bytes, signal) => {
    const context = { ...origin, taskId: undefined, signal }
    const body = decodeBytes(bytes, coding, settings.limits, request)
    return writeLines(body, { settings, report, context, streamResults })
  }
  return { coding, report, sink, write }
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
    const { coding } = upload
    const identity = isWhole ? { coding, sha256 } : { coding, start: sha256 }
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
    return { response: withVary({ status: 200, headers, body: text }), short: summaryLine(report) }
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
  const { report, sink } = upload
  try {
    await unlessAborted(readAll(upload.write(body, signal)), signal)
  } catch (error) {
    throw withReport(error, upload)
  }
  const { summary } = report
  const items = (sink as TextSink).items<UploadItem>()
  return withVary(json(200, { message: messageOf(report), summary, items } satisfies UploadResult))
}

/** Writes a whole upload, for a report at the end. */
export async function readAll(writes: AsyncIterable<void>): Promise<void> {
  for await (const _ of writes);
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
  yield summaryLine(report)
}

function summaryLine(report: Report): string {
  return `${JSON.stringify({ message: messageOf(report), summary: report.summary })}\n`
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
