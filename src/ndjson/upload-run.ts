import { isWholeNumber, isJsonObject } from '../http/body/json.js'
import { httpError, type HttpError } from '../http/errors.js'
import { batchesOf, type Batch, type Block, type Judge, type Rejected } from '../records/batch.js'
import { findDuplicates } from '../records/duplicates.js'
import { errorReports, type RecordErrorPlace } from '../records/error-reports.js'
import { excerptOf, type Report, type ReportSettings } from '../records/report.js'
import { writeRecords, type Continuation, type Write } from '../records/write-loop.js'
import { judge } from '../schema/schema.js'
import { LineReader, readBatches } from './line-reader.js'
import type { LineError } from './line-text.js'
import type { UploadSettings, WriteContext } from './upload-options.js'
import { SourceLines, type SourceFault } from './upload-source.js'
import { readOutcomes } from './write-outcomes.js'

/** Place in a body at which a line begins. */
export interface LinePlace {
  readonly byte: number
  readonly lines: number
}

/** After this many bytes, a report lists errors with their code only. */
export const MAX_REPORT_BYTES = 524_288
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
  /** Validates and reports the records, and writes none. */
  readonly isDry?: boolean
  readonly streamResults?: boolean
  /** The attempt of a task. */
  readonly place?: RecordErrorPlace
  readonly from?: { readonly place?: object | undefined, readonly done: number }
  readonly continuation?: Continuation
}

/** Place at which a run begins to read. Keys are compared with those of all lines before. */
export function readFrom<T>({ settings: { key }, from }: Pick<Upload<T>, 'settings' | 'from'>): LinePlace {
  return placeOf(key === undefined ? from : undefined)
}

/**
 * Reads the records of a decoded body and passes them to `write` in batches. Yields after each
 * batch. The body begins at `readFrom`, unless it is that of a source.
 */
export function writeLines<T>(
  body: AsyncIterable<Uint8Array>, upload: Upload<T>,
): AsyncGenerator<void, void, undefined> {
  const { settings, report, context, from, continuation, isDry = false } = upload
  const { key } = settings
  const batches = batchesOf<T, LinePlace>(lineBlocks(body, upload), {
    batchSize: settings.batchSize, concurrency: CONCURRENCY, judge: judgeRecords(settings),
    done: from?.done ?? 0,
    compare: key && findDuplicates(key, (line) => (
      `Line ${line} has the same key, so this line was not written.`
    )),
  })
  const reportError = errorReports(settings.onError, { signal: context.signal, place: upload.place })
  const write: Write<T> = async (records, place) => {
    if (isDry) return undefined
    const { length } = records
    // The errors among the outcomes are reported when `write` returns them.
    const cursor: WriteContext['cursor'] = (outcomes) => (
      place.cursor(readOutcomes(outcomes, length, () => undefined))
    )
    const outcomes = await settings.write(records, { ...context, ...place, cursor })
    return readOutcomes(outcomes, length, reportError)
  }
  const good = untilTooManyAreBad(batches, report, { maxBadLines: settings.maxBadLines, isDry })
  return writeRecords({ report, continuation, call: context, write }, good)
}

/** Ends before the batch in which the failed lines are more than `maxBadLines`. */
async function* untilTooManyAreBad<T>(
  batches: AsyncIterable<Batch<T>>, report: Report,
  { maxBadLines, isDry }: { readonly maxBadLines: number, readonly isDry: boolean },
): AsyncGenerator<Batch<T>, void, undefined> {
  for await (const batch of batches) {
    if (report.failed + batch.rejected.length + batch.undescribed > maxBadLines) {
      report.add(batch.onlyRejected())
      throw tooManyBadLines(maxBadLines, isDry)
    }
    yield batch
    // `write` may have failed records.
    if (report.failed > maxBadLines) throw tooManyBadLines(maxBadLines, isDry)
  }
}

function tooManyBadLines(maxBadLines: number, isDry: boolean): HttpError {
  const lines = maxBadLines === 0 ? 'A line' : `More than ${maxBadLines} ${maxBadLines === 1 ? 'line' : 'lines'}`
  const end = isDry ? 'Nothing was written.' : 'The upload was stopped.'
  return httpError('too_many_bad_lines', { message: `${lines} failed. ${end}` })
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
  body: AsyncIterable<Uint8Array>, upload: Upload<T>,
): AsyncGenerator<Block<LinePlace>, void, undefined> {
  const { settings, streamResults = false, continuation } = upload
  const { maxErrors, maxLineBytes, maxLines } = settings
  const source = settings.source && new SourceLines(settings.source)
  // Each bad line has a line in the response, or a later run may begin behind it.
  const describesAll = streamResults || continuation !== undefined
  const reader = new LineReader({ maxErrors: describesAll ? Infinity : maxErrors, maxLineBytes })
  let place = readFrom(upload)
  const bytes = source ? source.of(body, place.byte) : body
  reader.continueAt(place.byte, place.lines)
  let byte = reader.byteCount
  const limits = { maxQuietBytes: MAX_QUIET_BYTES, maxLines }
  for await (const { records, lines, errors, failed, isOver } of readBatches(bytes, reader, limits)) {
    const isFirst = byte === 0 && source === undefined
    if (isFirst) rejectOtherJson(errors[0], lines[0])
    const rejected = errors.map((error) => rejectedLine(error, source?.fault))
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

/** @param fault - the fault that the source has reported for this line */
function rejectedLine(error: LineError, fault: SourceFault | undefined): Rejected {
  const { code, message, excerpt, details }: SourceFault = fault ?? error
  const outcome = { status: 400, error: { code, message, details } }
  return { number: error.line, outcome, excerpt: excerptOf(excerpt ?? '') }
}

/** @throws {HttpError} The first line says that the body is another kind of JSON. */
function rejectOtherJson(first: LineError | undefined, firstRecord = Infinity): void {
  if (first === undefined || first.line > firstRecord) return
  const { excerpt } = first
  const isArray = excerpt.startsWith('[')
  if (!isArray && excerpt !== '{') return
  const found = isArray ? 'a JSON array' : 'JSON with line breaks in an object'
  throw httpError('not_ndjson', {
    message: `The body is ${found}. Send NDJSON: each object on a line of its own,`
      + ' without brackets around the lines and commas between them.',
  })
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

/** @param isDry - nothing was written */
export function messageOf({ total, succeeded, failed }: Report, isDry = false): string {
  const records = `${total} ${total === 1 ? 'record' : 'records'}`
  if (isDry) return `Checked ${records}: ${succeeded} valid, ${failed} failed. Nothing was written.`
  return `Read ${records}: ${succeeded} succeeded, ${failed} failed.`
}

/** Writes a whole upload, for a report at the end. */
export async function readAll(writes: AsyncIterable<void>): Promise<void> {
  for await (const _ of writes);
}
