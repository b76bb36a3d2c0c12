import { httpError, type HttpError } from '../http/errors.js'
import type { Handler, HttpResponse } from '../http/exchange.js'
import { readFailure } from '../http/failure.js'
import { addApplied, addVary, empty, errorResponse, jsonText } from '../http/respond.js'
import {
  backgroundEndpoint, recordHandler, type BackgroundEndpoint, type RecordRequest, type RecordWork,
} from '../records/background.js'
import { TextSink } from '../records/http.js'
import { Report } from '../records/report.js'
import { isAborted, writeAll } from '../records/write-loop.js'
import type { ReportSummary } from '../wire/report.js'
import { writeAtomic } from './atomic.js'
import { checkHead } from './body.js'
import { honoured, identityOf, settingsFor } from './handling.js'
import { findDuplicates, judgeItems } from './judge.js'
import { bulkOperation, selectedItems } from './operation.js'
import type { BulkAsked, BulkBackgroundOptions, BulkSettings } from './options.js'
import { readDirect, type DirectBody } from './read-direct.js'
import { bulkTask, type BulkTask } from './task.js'
import { RequestCall, startRun, writeItems, type BulkCall, type BulkRun } from './write.js'

/** A bulk endpoint that can work in the background. Returned by `bulkCreate` and `bulkUpdate`. */
export type BackgroundBulk = BackgroundEndpoint<BulkTask>

export function bulkEndpoint<T>(
  where: string, settings: BulkSettings<T>, background: BulkBackgroundOptions | undefined,
): Handler | BackgroundBulk {
  const work: RecordWork<BulkAsked> = {
    where, method: settings.method,
    ask: (request, prefer) => ({
      coding: checkHead(settings, request), selection: selectedItems(request, prefer),
      handling: honoured(settings, prefer.handling),
    }),
    applied: appliedPreferences,
    respond: (request) => respondTo(settings, request),
    operation: (hasBackground) => bulkOperation(settings, hasBackground),
  }
  if (background === undefined) return recordHandler(work)
  const { resume, writer, transaction } = settings
  if (resume !== undefined && writer.many === undefined && transaction === undefined) {
    throw new TypeError(`${where}: resume needs a repository with createMany or updateMany, or an`
      + ' atomic batch, because single writes of many items have no common position')
  }
  return backgroundEndpoint(work, bulkTask(where, settings, background))
}

function respondTo<T>(
  settings: BulkSettings<T>, asking: RecordRequest<BulkAsked>,
): Promise<HttpResponse> {
  const { request, asked: { coding, handling }, owner, tenant, context, once, accept: spool } = asking
  const work = async (body: DirectBody): Promise<HttpResponse> => {
    if (once === undefined) {
      const call = new RequestCall(request, { owner, tenant, context })
      return (await respond(settings, asking, body, call)).response
    }
    return once(identityOf(body.identity(), handling), async (began) => {
      // It continues if the client disconnects, because a retry may be waiting for its response.
      const call = { owner, tenant, context, signal: new AbortController().signal }
      const { response, summary } = await respond(settings, asking, body, call)
      began()
      return { response, short: JSON.stringify({ summary }) }
    })
  }
  return readDirect(settings, request, { coding, work, spool })
}

async function respond<T>(
  shared: BulkSettings<T>, { request, asked }: RecordRequest<BulkAsked>,
  body: DirectBody, call: BulkCall,
): Promise<{ readonly response: HttpResponse, readonly summary: ReportSummary }> {
  const { selection, handling } = asked
  const settings = settingsFor(shared, handling)
  const { status, mixedStatus, items: pointer, maxReportBytes: maxBytes } = settings
  const sink = new TextSink()
  const report = new Report(sink, { numbers: 'index', status, pointer, selection, maxBytes })
  const run = startRun(settings, call)
  let failure: { readonly error: unknown } | undefined
  try {
    await write(run, body, report)
    failure = failureOf(settings, report)
  } catch (error) {
    // The client has disconnected: nobody reads the response.
    if (isAborted(call)) return { response: empty(503), summary: report.summary }
    if (!readFailure(error).expected) run.reportError(error)
    failure = { error }
  }
  const response = failure === undefined
    ? jsonText(report.failed === 0 ? status : mixedStatus, '{')
    : errorResponse(failure.error, request)
  // The report continues the JSON of the error.
  const before = response.body as string
  response.body = sink.body(failure === undefined ? before : before.slice(0, -1), report)
  addVary(response.headers, 'Prefer')
  addApplied(response.headers, appliedPreferences(asked))
  return { response, summary: report.summary }
}

function appliedPreferences({ selection, handling }: BulkAsked): string[] {
  const applied: string[] = []
  if (selection === 'none') applied.push('return=minimal')
  if (handling !== undefined) applied.push(`handling=${handling}`)
  return applied
}

function write<T>(
  run: BulkRun<T>, { body, items: itemCount }: DirectBody, report: Report,
): Promise<void> {
  const { settings, call } = run
  const { transaction, batchSize, concurrency } = settings
  if (transaction) {
    return writeAtomic(run, { transaction, body, itemCount }, report)
  }
  return writeAll(
    { report, call, write: (items: T[]) => writeItems(run, items, call) },
    body.whole ?? body.open(),
    { batchSize, concurrency, judge: judgeItems(run), compare: findDuplicates(settings) },
  )
}

function failureOf<T>(
  { transaction }: BulkSettings<T>, { succeeded, unknown, masked, firstError }: Report,
): { readonly error: HttpError } | undefined {
  if (succeeded > 0) return undefined
  if (unknown > 0) {
    const message = 'Something went wrong, and it is not known which of the items were written.'
    return { error: httpError('write_outcome_unknown', { message }) }
  }
  if (masked > 0) return { error: httpError('internal_error') }
  if (!transaction) return { error: httpError('batch_failed') }
  const message = 'Nothing was changed: the batch is applied as a whole or not at all, '
    + 'and not all of its items can be.'
  const code = firstError?.status === 409 ? 'conflict' : 'batch_failed'
  return { error: httpError(code, { message }) }
}
