import { requestCoding } from '../http/body/decode.js'
import type { HttpRequest } from '../http/exchange.js'
import type { TaskDefinition } from '../tasks/definition/define.js'
import type { TaskContext } from '../tasks/definition/run-context.js'
import { Spool, decodedFrom, type SpooledBody } from '../tasks/definition/spool.js'
import { positionSaver, resumedFrom } from '../tasks/definition/resume.js'
import { failedAfter, spooledTask } from '../tasks/definition/spooled-task.js'
import { retryUntil } from '../stores/calls.js'
import type { TaskEndpoints } from '../tasks/http/endpoints.js'
import type { ReadWork } from '../tasks/http/submit-options.js'
import type { ParsedBatch } from './batch.js'
import { isPosition, itemsOf, POSITION, START, type BulkPosition } from './bulk-position.js'
import { startRun } from './bulk-run.js'
import { continueBulk } from './continue-run.js'
import type { ItemSelection } from './item-selection.js'
import type { BulkBackgroundOptions } from './options.js'
import { Report, type BulkItem, type BulkReport } from './report.js'
import {
  decodeLimits, isValue, largeBody, measure, readBody, type BulkBody,
} from './request-body.js'
import type { BulkSettings } from './settings.js'
import { keepingReports, StoredReport } from './stored-report.js'

/** Input of the task: a batch in the blobs. */
export interface SpooledBatch extends SpooledBody {
  /** Number of items. */
  readonly items: number
  /** Items that the result lists. */
  readonly list: ItemSelection
}

/**
 * Result of the task: the report. `items` is absent if the list is longer than `maxInlineBytes`.
 */
export interface BulkTaskResult extends BulkReport {
  readonly message: string
}

/** The task that writes batches in the background. */
export type BulkTask = TaskDefinition<
  SpooledBatch, BulkTaskResult, unknown, SpooledBatch, string, BulkPosition
>

/** Task of a bulk endpoint, and the function that makes a request its input. */
export interface SpooledBulk {
  readonly task: BulkTask
  readonly maxInlineBytes: number
  /**
   * Writes the body to the blobs, as it was sent, and checks it. If it is refused, deletes it.
   *
   * @param bytes - the body as sent, if the request was read already
   */
  spool<C>(
    endpoints: TaskEndpoints<C>, request: HttpRequest<C>, selection: ItemSelection,
    bytes?: AsyncIterable<Uint8Array>,
  ): Promise<ReadWork>
}

/** Creates the task that writes spooled batches. */
export function spooledBulk<T>(
  caller: string, settings: BulkSettings<T>, background: BulkBackgroundOptions,
): SpooledBulk {
  const { name, blobs, blobRetentionMs, maxInlineBytes = 262_144 } = background
  if (!(maxInlineBytes >= 0)) {
    throw new TypeError(`${caller}: background.maxInlineBytes must be 0 or more`)
  }
  const spool = new Spool(caller, `bulk-${settings.kind}/`, blobs, blobRetentionMs)
  const limits = decodeLimits(settings)
  const { resume } = settings
  const open = (
    spooled: SpooledBody, { place }: BulkPosition,
  ): BulkBody | Promise<BulkBody> => {
    const bytes = (byte: number) => decodedFrom(spooled, byte, limits, (start) => (
      spool.open(spooled, start)
    ))
    const isLarge = spooled.coding === 'identity' && spooled.size > settings.streamAboveBytes
    return place || isLarge ? largeBody(settings, bytes) : readBody(settings, bytes)
  }

  const startOf = async (
    task: TaskContext<unknown, BulkPosition>, itemCount: number,
  ): Promise<{ readonly from: BulkPosition; readonly previous: string | undefined }> => {
    const start = await resumedFrom(caller, resume, isPosition, task)
    const { position: from = START, previous } = start
    // An atomic batch has no position between its items. The option may have been changed.
    return { from: settings.transaction && itemsOf(from) < itemCount ? START : from, previous }
  }

  const run = async (
    spooled: SpooledBatch, task: TaskContext<unknown, BulkPosition>,
  ): Promise<BulkTaskResult> => {
    const { taskId = 'direct', attempt, signal, context, owner } = task
    const place = { taskId, name, attempt }
    const call = { signal, context, owner, taskId: task.taskId, place }
    const bulkRun = startRun(settings, call, { isLast: task.lastAttempt })
    const { reportError } = bulkRun
    const retry = retryUntil(signal)
    const stored = new StoredReport({
      blobs, taskId, run: attempt, retentionMs: spool.retentionMs, maxInlineBytes, reportError,
      parts: spool.parts(spooled, attempt, retry), retry,
    })
    const report = new Report(stored, settings, 'all')
    const { from, previous } = await startOf(task, spooled.items)
    await stored.continueFrom(from)
    report.continueFrom(from)
    const progress = (): void => {
      task.progress(report.total, spooled.items, messageOf(settings, report))
    }
    const commit = positionSaver(resume, task.checkpoint)
    const resumption = { from, previous, itemCount: spooled.items, report, stored, commit }
    let failure: { readonly error: unknown } | undefined
    try {
      if (report.total < spooled.items) {
        await continueBulk(bulkRun, withProgress(await open(spooled, from), progress), resumption)
      }
    } catch (error) {
      failure = { error }
    }
    const isStored = await stored.end(failure === undefined)
    const message = messageOf(settings, report)
    if (failure) throw failedAfter(failure.error, report.total, message)
    progress()
    const { summary } = report
    if (spooled.list === 'none') return { message, summary }
    const items = listed(stored.items, spooled.list)
    return items ? { message, summary, items } : { message: message + placeOf(isStored), summary }
  }

  const input = spool.input<SpooledBatch>({
    items: (value) => Number.isSafeInteger(value) && Number(value) >= 1,
    list: (value) => value === 'all' || value === 'failed' || value === 'none',
  })
  return {
    task: spooledTask<SpooledBatch, BulkTaskResult, BulkPosition>(
      spool, background, input, run, POSITION, keepingReports(spool),
    ),
    maxInlineBytes,
    async spool(endpoints, request, selection, bytes = bytesOf(request)) {
      const { body: { parsed }, headers } = request
      const coding = parsed === undefined ? requestCoding(headers) : 'identity'
      const { maxBodyBytes } = settings
      const sent = { bytes, coding, maxBodyBytes }
      const { spooled, sha256, discard } = await endpoints.spool(request, spool, sent)
      try {
        const body = await open(spooled, START)
        const items = body.whole ? body.whole.items.length : (await measure(body)).items
        // A direct request has the same, so that a key means the same batch in both cases.
        const identity = body.whole ? body.whole.items : { coding, sha256 }
        return { input: { ...spooled, items, list: selection }, body: identity, discard }
      } catch (error) {
        await discard()
        throw error
      }
    },
  }
}

function listed(
  items: readonly BulkItem[] | undefined, list: 'all' | 'failed',
): readonly BulkItem[] | undefined {
  return list === 'all' ? items : items?.filter(({ status }) => status >= 400)
}

function placeOf(isStored: boolean): string {
  if (!isStored) return ' Its items could not be kept.'
  return ' Its items are at the path of this status, with /items behind it.'
}

/** Returns the body as sent. If the host has parsed it, serialises it again. */
function bytesOf({ body }: Pick<HttpRequest, 'body'>): AsyncIterable<Uint8Array> {
  if (!isValue(body.parsed)) return body.stream()
  return oneOf(Buffer.from(JSON.stringify(body.parsed?.value) ?? ''))
}

async function* oneOf(bytes: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
  yield bytes
}

/** Calls `progress` before each batch. */
function withProgress(body: BulkBody, progress: () => void): BulkBody {
  if (!body.whole) return { open: (from) => reporting(body.open(from), progress) }
  progress()
  return body
}

async function* reporting(
  batches: AsyncIterable<ParsedBatch>, progress: () => void,
): AsyncGenerator<ParsedBatch, void, undefined> {
  for await (const batch of batches) {
    progress()
    yield batch
  }
}

function messageOf<T>({ kind }: BulkSettings<T>, { total, succeeded, failed }: Report): string {
  const done = kind === 'create' ? 'created' : 'updated'
  return `${total} ${total === 1 ? 'item' : 'items'}: ${succeeded} ${done}, ${failed} failed.`
}
