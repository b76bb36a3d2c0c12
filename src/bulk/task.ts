import { type ArrayPosition, isArrayPosition } from '../json-array/array-position.js'
import { checkExact, inexactParsed, TOO_LARGE } from '../http/body/exact-json.js'
import { decodeBytes } from '../http/body/decode.js'
import type { RecordRequest, RecordTask } from '../records/background.js'
import { positionOf, type RecordPosition } from '../records/position.js'
import type { ItemSelection, Report } from '../records/report.js'
import { Spool, decodedFrom, failedAfter, spooledTask } from '../records/spool.js'
import { SpooledRun, type RecordTaskContext } from '../records/spooled-run.js'
import { writeAll, type WritePlace } from '../records/write-loop.js'
import type { Call } from '../repositories/repository.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import { passing } from '../runtime/passing.js'
import { oneOf } from '../runtime/text.js'
import type { TaskDefinition } from '../tasks/definition/define.js'
import type { OpenRequest } from '../tasks/http/endpoints.js'
import type { ReadWork } from '../tasks/http/settings.js'
import type { SpooledBody } from '../tasks/http/spool-body.js'
import { coreOf } from '../tasks/tasks.js'
import type { BulkItem, BulkReport } from '../wire/report.js'
import { writeAtomic } from './atomic.js'
import {
  bodyOfValue, isValue, largeBody, readBody, readPassing, type BulkBody, type PassedBody,
} from './body.js'
import { honoured, identityOf, settingsFor } from './handling.js'
import { findDuplicates, judgeItems } from './judge.js'
import type { BulkAsked, BulkBackgroundOptions, BulkSettings } from './options.js'
import { outcomesOf, startRun, writeItems, type BulkRun } from './write.js'

/** Input of the task: a batch in the blobs. */
export interface SpooledBatch extends SpooledBody {
  /** Number of items. */
  readonly items: number
  /** Items that the result lists. */
  readonly list: ItemSelection
  /** The client prefers partial success. Absent: the endpoint decides. */
  readonly handling?: 'lenient'
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

/** Creates the task of a bulk endpoint. */
export function bulkTask<T>(
  where: string, settings: BulkSettings<T>, background: BulkBackgroundOptions,
): RecordTask<BulkAsked, BulkTask> {
  const { maxInlineBytes = 262_144, ...taskOptions } = background
  if (!(maxInlineBytes >= 0)) {
    throw new TypeError(`${where}: background.maxInlineBytes must be 0 or more`)
  }
  const prefix = `bulk-${settings.kind}/`
  const spool = new Spool({ where, prefix, keepsReport: true, ...background })
  const bulk: BackgroundWork<T> = { where, settings, spool, maxInlineBytes, name: background.name }
  const input = spool.input<SpooledBatch>({
    items: (value) => Number.isSafeInteger(value) && Number(value) >= 1,
    list: (value) => value === 'all' || value === 'failed' || value === 'none',
    handling: (value) => value === undefined || value === 'lenient',
  })
  const run = (spooled: SpooledBatch, task: RecordTaskContext) => runBatch(bulk, spooled, task)
  return {
    task: spooledTask<SpooledBatch, BulkTaskResult, RecordPosition>(spool, taskOptions, {
      input, run, checkpoint: positionOf(isArrayPosition),
    }),
    spool: (open, request, asked, bytes) => spoolBatch(bulk, open, { request, asked, bytes }),
    check({ tasks }) {
      const { maxResultBytes } = coreOf(tasks, where).settings
      if (maxInlineBytes + 1024 <= maxResultBytes) return
      throw new TypeError(`${where}: background.maxInlineBytes must be 1024 or more below`
        + ` maxResultBytes of createTasks, which is ${maxResultBytes}`)
    },
  }
}

interface BackgroundWork<T> {
  readonly where: string
  readonly settings: BulkSettings<T>
  readonly spool: Spool
  readonly maxInlineBytes: number
  /** Name of the task. */
  readonly name: string
}

interface SentBatch extends Pick<RecordRequest<BulkAsked>, 'request' | 'asked'> {
  readonly bytes: AsyncIterable<Uint8Array> | undefined
}

/** Writes a body to the blobs, and checks it and counts its items on the way. */
async function spoolBatch<T>(
  { settings, spool }: BackgroundWork<T>, open: OpenRequest,
  { request, asked: { coding, selection, handling }, bytes: given }: SentBatch,
): Promise<ReadWork> {
  const { maxBodyBytes, limits } = settings
  const { body: { parsed } } = request
  const isParsed = given === undefined && isValue(parsed)
  let read: PassedBody | undefined = isParsed ? bodyOfValue(settings, parsed?.value, false) : undefined
  const bytes = isParsed ? bytesOf(parsed?.value) : passing(given ?? request.body.stream(), async (copy) => {
    read = await readPassing(settings, decodeBytes(copy, coding, limits))
  })
  const { spooled, sha256, discard } = await open.spool(spool, { bytes, coding, maxBodyBytes })
  const { items, whole } = read as PassedBody
  // A synchronous request has the same, so that a key means the same batch in both cases.
  const body = identityOf(whole ? whole.records : { coding, sha256 }, handling)
  const lenient = handling === 'lenient' && { handling }
  return { input: { ...spooled, items, list: selection, ...lenient }, body, discard }
}

function openBatch<T>(
  { settings, spool }: BackgroundWork<T>, spooled: SpooledBody, place: RecordPosition['place'],
): MaybePromise<BulkBody> {
  const { coding } = spooled
  const coded = { coding, open: (start: number) => spool.open(spooled, start) }
  const bytes = (byte: number) => decodedFrom(coded, byte, settings.limits)
  const isLarge = spooled.coding === 'identity' && spooled.size > settings.streamAboveBytes
  return place || isLarge ? largeBody(settings, bytes) : readBody(settings, bytes)
}

async function runBatch<T>(
  bulk: BackgroundWork<T>, spooled: SpooledBatch, task: RecordTaskContext,
): Promise<BulkTaskResult> {
  const { where, spool, maxInlineBytes, name } = bulk
  // The option `atomic` may have been changed since the task was accepted.
  const settings = settingsFor(bulk.settings, honoured(bulk.settings, spooled.handling))
  const { taskId = 'direct', attempt, signal, context, owner, tenant } = task
  const { items: itemCount, list } = spooled
  const { items: pointer, status, maxReportBytes: maxBytes, resume, transaction } = settings
  const place = { taskId, name, attempt }
  const call = { signal, context, owner, tenant, taskId: task.taskId, place }
  const bulkRun = startRun(settings, call, { isLast: task.lastAttempt })
  const progress = (report: Report): void => {
    task.progress(report.total, itemCount, messageOf(settings, report), 'items')
  }
  const taskRun = await SpooledRun.open({
    where, spool, spooled, task, resume, isPlace: isArrayPosition, maxInlineBytes, progress,
    total: itemCount,
    report: { numbers: 'index', status, pointer, selection: 'all', maxBytes },
    onError: bulkRun.reportError,
    // An atomic batch has no position between its items. The option may have been changed.
    canContinue: ({ done }) => !transaction || done >= itemCount,
  })
  const { report, stored, from } = taskRun
  progress(report)
  try {
    if (from.done < itemCount) {
      await writeBody(bulkRun, await openBatch(bulk, spooled, from.place), itemCount, taskRun)
    }
    await taskRun.finish()
  } catch (error) {
    await taskRun.leaveRest()
    throw failedAfter(error, report.total, messageOf(settings, report))
  }
  const message = messageOf(settings, report)
  const { summary } = report
  if (list === 'none') return { message, summary }
  const items = listed(stored.items<BulkItem>(), list)
  return items ? { message, summary, items } : { message: message + placeOf(stored.isWhole), summary }
}

async function writeBody<T>(
  run: BulkRun<T>, body: BulkBody, itemCount: number, taskRun: SpooledRun,
): Promise<void> {
  const { settings, call } = run
  const { report, previous, from } = taskRun
  const { transaction, batchSize, concurrency } = settings
  if (transaction) {
    const cursor: Call['cursor'] = () => {
      if (report.total === itemCount) return JSON.stringify(taskRun.positionAt(report, itemCount))
      throw new TypeError('cursor: call cursor() inside of transaction, after work has resolved')
    }
    await writeAtomic(run, { transaction, body, itemCount, call: { ...call, cursor, previous } }, report)
    await taskRun.commit({ last: itemCount, place: undefined })
    return
  }
  const write = (items: T[], place: WritePlace) => {
    const cursor = settings.writer.many && cursorOf(run, items, place)
    return writeItems(run, items, { ...call, cursor, previous: place.previous })
  }
  const blocks = body.whole ?? body.open(from.place as ArrayPosition | undefined)
  await writeAll({ report, write, call, continuation: taskRun }, blocks, {
    batchSize, concurrency, done: from.done, judge: judgeItems(run),
    // Items of a large body are not compared: their keys would not fit into a position.
    compare: body.whole && findDuplicates(settings),
  })
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

/** Serialises a body again that the framework has parsed. */
function bytesOf(value: unknown): AsyncIterable<Uint8Array> {
  // JSON would write Infinity, which the framework has read from 1e400, as null.
  checkExact(inexactParsed(value).filter(({ message }) => message === TOO_LARGE))
  return oneOf(Buffer.from(JSON.stringify(value) ?? ''))
}

function messageOf<T>({ kind }: BulkSettings<T>, { total, succeeded, failed }: Report): string {
  const done = kind === 'create' ? 'created' : 'updated'
  return `${total} ${total === 1 ? 'item' : 'items'}: ${succeeded} ${done}, ${failed} failed.`
}
