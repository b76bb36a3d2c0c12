import { type ArrayPosition, isArrayPosition } from '../json-array/array-position.js'
import { checkExact, inexactParsed, TOO_LARGE } from '../http/body/exact-json.js'
import { bodyCoding } from '../http/body/decode.js'
import type { HttpRequest } from '../http/exchange.js'
import { batchesOf } from '../records/batch.js'
import { positionOf, START, type RecordPosition } from '../records/position.js'
import type { ItemSelection, Report } from '../records/report.js'
import { TaskRun, type RecordTaskContext } from '../records/task-run.js'
import { writeRecords, type WritePlace } from '../records/write-loop.js'
import type { Call } from '../repositories/repository.js'
import { oneOf } from '../runtime/text.js'
import type { TaskDefinition } from '../tasks/definition/define.js'
import { Spool, decodedFrom, failedAfter, spooledTask } from '../records/spool.js'
import type { SpooledBody } from '../tasks/http/spool-body.js'
import type { TaskEndpoints } from '../tasks/http/endpoints.js'
import type { ReadWork } from '../tasks/http/settings.js'
import type { BulkItem, BulkReport } from '../wire/report.js'
import { writeAtomic } from './atomic.js'
import {
  blocksOf, isValue, largeBody, readBody, type BulkBody,
} from './body.js'
import { keepingReports, storeItems } from './items.js'
import { findDuplicates, judgeItems } from './judge.js'
import type { BulkBackgroundOptions, BulkSettings } from './options.js'
import { outcomesOf, startRun, writeItems, type BulkRun } from './write.js'

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
  SpooledBatch, BulkTaskResult, unknown, SpooledBatch, string, RecordPosition
>

export interface SpooledBulk {
  readonly task: BulkTask
  readonly maxInlineBytes: number
  /** Writes the body to the blobs, as it was sent, and checks it. */
  spool<C>(
    endpoints: TaskEndpoints<C>, request: HttpRequest<C>, selection: ItemSelection,
    bytes?: AsyncIterable<Uint8Array>,
  ): Promise<ReadWork>
}

export function spooledBulk<T>(
  caller: string, settings: BulkSettings<T>, background: BulkBackgroundOptions,
): SpooledBulk {
  const { maxInlineBytes = 262_144, ...taskOptions } = background
  const { name, blobs, blobRetentionMs } = taskOptions
  if (!(maxInlineBytes >= 0)) {
    throw new TypeError(`${caller}: background.maxInlineBytes must be 0 or more`)
  }
  const spool = new Spool(caller, `bulk-${settings.kind}/`, blobs, blobRetentionMs)
  const { limits } = settings
  const open = (
    spooled: SpooledBody, place: RecordPosition['place'],
  ): BulkBody | Promise<BulkBody> => {
    const bytes = (byte: number) => decodedFrom(spooled, byte, limits, (start) => (
      spool.open(spooled, start)
    ))
    const isLarge = spooled.coding === 'identity' && spooled.size > settings.streamAboveBytes
    return place || isLarge ? largeBody(settings, bytes) : readBody(settings, bytes)
  }

  const run = async (spooled: SpooledBatch, task: RecordTaskContext): Promise<BulkTaskResult> => {
    const { taskId = 'direct', attempt, signal, context, owner } = task
    const { items: itemCount, list } = spooled
    const { items: pointer, status, maxReportBytes: maxBytes, resume, transaction } = settings
    const place = { taskId, name, attempt }
    const call = { signal, context, owner, taskId: task.taskId, place }
    const bulkRun = startRun(settings, call, { isLast: task.lastAttempt })
    const progress = (report: Report): void => {
      task.progress(report.total, itemCount, messageOf(settings, report), 'items')
    }
    const taskRun = await TaskRun.open({
      caller, spool, spooled, task, resume, isPlace: isArrayPosition, maxInlineBytes, progress,
      report: { numbers: 'index', status, pointer, selection: 'all', maxBytes },
      onError: bulkRun.reportError,
      // An atomic batch has no position between its items. The option may have been changed.
      canContinue: ({ done }) => !transaction || done >= itemCount,
    })
    const { report, stored, from } = taskRun
    let failure: { readonly error: unknown } | undefined
    progress(report)
    try {
      if (from.done < itemCount) {
        await writeBody(bulkRun, await open(spooled, from.place), itemCount, taskRun)
      }
    } catch (error) {
      failure = { error }
    }
    // A run that has failed does not wait for the blobs, because the next attempt stores the report.
    const retry: TaskRun['retry'] = failure ? (work) => work() : taskRun.retry
    const isStored = await storeItems(stored, spool, { taskId, run: attempt, retry })
    const message = messageOf(settings, report)
    if (failure) throw failedAfter(failure.error, report.total, message)
    progress(report)
    const { summary } = report
    if (list === 'none') return { message, summary }
    const items = listed(stored.items<BulkItem>(), list)
    return items ? { message, summary, items } : { message: message + placeOf(isStored), summary }
  }

  const input = spool.input<SpooledBatch>({
    items: (value) => Number.isSafeInteger(value) && Number(value) >= 1,
    list: (value) => value === 'all' || value === 'failed' || value === 'none',
  })
  return {
    task: spooledTask<SpooledBatch, BulkTaskResult, RecordPosition>(
      spool, taskOptions, input, run, positionOf(isArrayPosition), keepingReports(spool),
    ),
    maxInlineBytes,
    async spool(endpoints, request, selection, bytes = bytesOf(request)) {
      const coding = bodyCoding(request)
      const { maxBodyBytes } = settings
      const sent = { bytes, coding, maxBodyBytes }
      const { spooled, sha256, discard } = await endpoints.spool(request, spool, sent)
      try {
        const body = await open(spooled, START.place)
        const items = body.whole ? body.whole.records.length : (await body.measure()).items
        // A synchronous request has the same, so that a key means the same batch in both cases.
        const identity = body.whole ? body.whole.records : { coding, sha256 }
        return { input: { ...spooled, items, list: selection }, body: identity, discard }
      } catch (error) {
        await discard()
        throw error
      }
    },
  }
}

async function writeBody<T>(
  run: BulkRun<T>, body: BulkBody, itemCount: number, taskRun: TaskRun,
): Promise<void> {
  const { settings, call } = run
  const { report, previous, from } = taskRun
  const { transaction, batchSize, concurrency } = settings
  if (transaction) {
    const cursor: Call['cursor'] = () => {
      if (report.total === itemCount) return JSON.stringify(taskRun.position(report, itemCount))
      throw new TypeError('cursor: call it in transaction, after work has resolved')
    }
    await writeAtomic(run, transaction, body, itemCount, report, { ...call, cursor, previous })
    await taskRun.commit({ last: itemCount, place: undefined })
    return
  }
  const batches = batchesOf<T, object>(blocksOf(body, from.place as ArrayPosition | undefined), {
    batchSize, concurrency, done: from.done, judge: judgeItems(run),
    // Items of a large body are not compared: their keys would not fit into a position.
    compare: body.whole && findDuplicates(settings),
  })
  const write = (items: T[], place: WritePlace) => {
    const cursor = settings.writer.many && cursorOf(run, items, place)
    return writeItems(run, items, { ...call, cursor, previous: place.previous })
  }
  for await (const _ of writeRecords({ report, write, call, continuation: taskRun }, batches));
}

function cursorOf<T>(run: BulkRun<T>, items: readonly T[], { cursor }: WritePlace): Call['cursor'] {
  // The errors among the outcomes are reported when the repository returns them.
  const silent = { ...run, reportError: () => undefined }
  return (written) => {
    if (written !== undefined) return cursor(outcomesOf(silent, items, written))
    throw new TypeError('cursor: pass the outcomes that createMany or updateMany returns')
  }
}

function listed(
  items: readonly BulkItem[] | undefined, list: 'all' | 'failed',
): readonly BulkItem[] | undefined {
  return list === 'all' ? items : items?.filter(({ status }) => status >= 400)
}

function placeOf(isStored: boolean): string {
  if (!isStored) return ' Its items could not be stored.'
  return ' Its items are at the path of this status, with /items behind it.'
}

/** Returns the body as sent. If the framework has parsed it, serialises it again. */
function bytesOf({ body }: Pick<HttpRequest, 'body'>): AsyncIterable<Uint8Array> {
  if (!isValue(body.parsed)) return body.stream()
  // JSON would write Infinity, which the framework has read from 1e400, as null.
  const infinite = inexactParsed(body.parsed?.value).filter(({ message }) => message === TOO_LARGE)
  checkExact(infinite)
  return oneOf(Buffer.from(JSON.stringify(body.parsed?.value) ?? ''))
}

function messageOf<T>({ kind }: BulkSettings<T>, { total, succeeded, failed }: Report): string {
  const done = kind === 'create' ? 'created' : 'updated'
  return `${total} ${total === 1 ? 'item' : 'items'}: ${succeeded} ${done}, ${failed} failed.`
}
