import { httpError, type HttpError } from '../http/errors.js'
import { describe, type Handler, type HttpRequest, type HttpResponse } from '../http/exchange.js'
import { readFailure } from '../http/failure.js'
import {
  acknowledged, addVary, empty, errorResponse, jsonText, refuseIdempotencyKey,
} from '../http/respond.js'
import { parsePrefer } from '../http/fields/prefer.js'
import { batchesOf } from '../records/batch.js'
import { checkEndpoints, TextSink } from '../records/http.js'
import { Report, type ItemSelection } from '../records/report.js'
import { isAborted, writeRecords } from '../records/write-loop.js'
import type { TaskEndpoints } from '../tasks/http/endpoints.js'
import { coreOf } from '../tasks/tasks.js'
import { writeAtomic } from './atomic.js'
import { blocksOf, checkHead } from './body.js'
import { findDuplicates, judgeItems } from './judge.js'
import { bulkOperation, selectedItems } from './operation.js'
import type { BulkBackgroundOptions, BulkSettings } from './options.js'
import type { ReportSummary } from '../wire/report.js'
import { readDirect, type DirectBody } from './read-direct.js'
import { spooledBulk, type BulkTask, type SpooledBulk } from './task.js'
import { RequestCall, startRun, writeItems, type BulkCall, type BulkRun } from './write.js'

/** A bulk endpoint that can work in the background. Returned by `bulkCreate` and `bulkUpdate`. */
export interface BackgroundBulk {
  /** Writes batches in the background. Pass it to `createTasks` in `definitions`. */
  readonly task: BulkTask
  /**
   * Creates the handler.
   * @param endpoints - the endpoints of the tasks that `task` is defined in
   * @throws {TypeError} `task` is not among the definitions of these tasks, or their
   * `maxResultBytes` is too small for `maxInlineBytes`.
   */
  handler<C>(endpoints: TaskEndpoints<C>): Handler<C>
}

export function bulkEndpoint<T>(
  caller: string, settings: BulkSettings<T>, background: BulkBackgroundOptions | undefined,
): Handler | BackgroundBulk {
  if (background === undefined) return bulkHandler(settings)
  const { resume, writer, transaction } = settings
  if (resume !== undefined && writer.many === undefined && transaction === undefined) {
    throw new TypeError(`${caller}: resume needs a repository with createMany or updateMany, or an`
      + ' atomic batch, because single writes of many items have no common position')
  }
  const spooled = spooledBulk(caller, settings, background)
  return {
    task: spooled.task,
    handler<C>(endpoints: TaskEndpoints<C>): Handler<C> {
      checkEndpoints(caller, spooled.task, endpoints)
      checkResultBytes(caller, spooled, endpoints)
      return bulkHandler(settings, { endpoints, spooled })
    },
  }
}

interface Background<C> {
  readonly endpoints: TaskEndpoints<C>
  readonly spooled: SpooledBulk
}

function checkResultBytes<C>(
  caller: string, { maxInlineBytes }: SpooledBulk, { tasks }: TaskEndpoints<C>,
): void {
  const { maxResultBytes } = coreOf(tasks, caller).settings
  if (maxInlineBytes + 1024 <= maxResultBytes) return
  throw new TypeError(`${caller}: background.maxInlineBytes must be 1024 or more below`
    + ` maxResultBytes of createTasks, which is ${maxResultBytes}`)
}

function bulkHandler<T, C>(settings: BulkSettings<T>, background?: Background<C>): Handler<C> {
  const handler = (request: HttpRequest<C>): Promise<HttpResponse> | undefined => {
    if (request.method !== settings.method) return undefined
    if (background) return acknowledged(request, () => respondTo(settings, request, background))
    refuseIdempotencyKey(request)
    return respondTo(settings, request)
  }
  return describe(handler, [bulkOperation(settings, background !== undefined)])
}

async function respondTo<T, C>(
  settings: BulkSettings<T>, request: HttpRequest<C>, background?: Background<C>,
): Promise<HttpResponse> {
  checkHead(settings, request)
  const selection = selectedItems(request)
  const direct = async (body: DirectBody, call: BulkCall): Promise<HttpResponse> => (
    (await respond(settings, request, body, selection, call)).response
  )
  if (!background) {
    const work = (body: DirectBody) => direct(body, new RequestCall(request))
    return readDirect(settings, request, { work, spool: undefined })
  }
  const { endpoints, spooled } = background
  const spool = (bytes?: AsyncIterable<Uint8Array>) => endpoints.accept(
    request, spooled.task, () => spooled.spool(endpoints, request, selection, bytes),
  )
  const { prefer, 'idempotency-key': key } = request.headers
  if (prefer !== undefined && parsePrefer(prefer).respondAsync) return spool()
  const origin = endpoints.originOf(request)
  const work = (body: DirectBody): Promise<HttpResponse> => {
    if (key === undefined) return direct(body, new RequestCall(request, origin))
    return endpoints.respondOnce(request, body.identity(), async (began) => {
      // It continues if the client disconnects, because a retry may be waiting for its response.
      const call = { ...origin, signal: new AbortController().signal }
      const { response, summary } = await respond(settings, request, body, selection, call)
      began()
      return { response, short: JSON.stringify({ summary }) }
    })
  }
  return readDirect(settings, request, { work, spool })
}

async function respond<T>(
  settings: BulkSettings<T>, request: HttpRequest, body: DirectBody, selection: ItemSelection,
  call: BulkCall,
): Promise<{ readonly response: HttpResponse, readonly summary: ReportSummary }> {
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
  if (selection === 'none') response.headers['preference-applied'] = 'return=minimal'
  return { response, summary: report.summary }
}

async function write<T>(
  run: BulkRun<T>, { body, items: itemCount }: DirectBody, report: Report,
): Promise<void> {
  const { settings, call } = run
  const { transaction, batchSize, concurrency } = settings
  if (transaction) {
    await writeAtomic(run, transaction, body, itemCount, report)
    return
  }
  const batches = batchesOf<T, object>(blocksOf(body), {
    batchSize, concurrency, judge: judgeItems(run), compare: findDuplicates(settings),
  })
  const writes = writeRecords({
    report, call, write: (items: T[]) => writeItems(run, items, call),
  }, batches)
  for await (const _ of writes);
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
