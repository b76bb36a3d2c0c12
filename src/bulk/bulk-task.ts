import { decodeBytes, requestCoding } from '../http/body/decode.js'
import { httpError } from '../http/errors.js'
import type { HttpRequest } from '../http/exchange.js'
import { jsonSchema } from '../schema/json-schema.js'
import type { Blobs } from '../stores/blobs.js'
import {
  failedAfter, spooledTask, type SpooledTaskOptions,
} from '../tasks/definition/spooled-task.js'
import { Spool, type SpooledBody } from '../tasks/definition/spool.js'
import type { ReadWork } from '../tasks/http/submit-endpoint-options.js'
import type { TaskContext, TaskDefinition } from '../tasks/definition/define.js'
import { intakeOfPieces, type Intake } from './intake.js'
import { startRun, type Plan } from './plan.js'
import { Report, type BulkReport, type Shown } from './report.js'
import { runBulk } from './run.js'
import { TaskReport } from './task-report.js'

/** A batch that waits for its task, as the input of that. */
export interface SpooledBatch extends SpooledBody {
  /** How many items it has. */
  readonly items: number
  /** Which of them the result shows. */
  readonly shown: Shown
}

/**
 * What a batch came to in the background: the report, and in `items` all that a status body has
 * room for.
 */
export interface BulkTaskResult extends BulkReport {
  readonly message: string
}

/** How batches are done in the background. Times are in milliseconds. */
export interface BulkTaskOptions extends SpooledTaskOptions<SpooledBatch, BulkTaskResult> {
  /** Where batches wait for their task, and reports for their readers. */
  readonly blobs: Blobs
  /**
   * How long both are kept at the most: longer than a task may have to wait, and longer than its
   * record is kept. Default 7 days.
   */
  readonly keepMs?: number
  /**
   * A longer list of items is not in the result, only at `{status}/items`. In bytes, default 256
   * KiB; `maxResultBytes` of the tasks has to be larger.
   */
  readonly maxInlineBytes?: number
}

/** The task of a bulk endpoint. Made by `bulkCreateTask` and `bulkUpdateTask`. */
export interface BulkTask extends TaskDefinition<SpooledBatch, BulkTaskResult> {
  readonly blobs: Blobs
  readonly maxInlineBytes: number
  readonly kind: 'create' | 'update'
  /**
   * Writes the body, as it was sent, to the blobs, and looks through it. Rejects with errors of 400
   * and 413; nothing is kept then.
   */
  spool(request: HttpRequest, shown: Shown): Promise<ReadWork>
}

const WEEK_MS = 604_800_000

/** Makes the task of a plan. Throws a `TypeError` when an option makes no sense. */
export function bulkTask<T>(caller: string, plan: Plan<T>, options: BulkTaskOptions): BulkTask {
  const { blobs, keepMs = WEEK_MS, maxInlineBytes = 262_144 } = options
  if (!(maxInlineBytes >= 0)) throw new TypeError(`${caller}: maxInlineBytes must be 0 or more`)
  const spool = new Spool(caller, `bulk-${plan.kind}/`, blobs, keepMs)
  const { type, required, properties } = spool.schema
  const input = jsonSchema<SpooledBatch>({
    type, required: [...required, 'items', 'shown'],
    properties: { ...properties, items: { type: 'integer', minimum: 1 }, shown: { enum: ['all', 'failed', 'none'] } },
  })
  const open = async (spooled: SpooledBody) => intakeOfPieces(plan, decodeBytes(await spool.open(spooled), spooled.coding, plan))

  const run = async (spooled: SpooledBatch, task: TaskContext): Promise<BulkTaskResult> => {
    const { taskId = 'direct', attempt, signal, context, progress } = task
    const own = startRun(plan, { signal, context, at: { taskId, name: options.name, attempt } })
    const sink = new TaskReport(blobs, taskId, keepMs, maxInlineBytes, own.tell)
    const report = new Report(sink, plan.status, 'all', plan.maxReportBytes)
    const intake = await open(spooled)
    const told = watched(intake, () => { progress(report.total, spooled.items, messageOf(plan, report)) })
    let failure: { readonly error: unknown } | undefined
    try {
      await runBulk(own, told, report)
    } catch (error) {
      failure = { error }
    }
    const kept = await sink.end()
    if (failure) throw failedAfter(failure.error, report.total, messageOf(plan, report))
    progress(report.total, spooled.items, messageOf(plan, report))
    const items = spooled.shown === 'none' ? undefined : sink.items?.filter(({ status }) => spooled.shown === 'all' || status >= 400)
    const where = items === undefined && spooled.shown !== 'none' ? kept ? ' Its items are at the path of this status, with /items behind it.' : ' Its items could not be kept.' : ''
    return { message: messageOf(plan, report) + where, summary: report.summary, ...items && { items } }
  }

  const definition = spooledTask<SpooledBatch, BulkTaskResult>(spool, options, input, run)

  const take: BulkTask['spool'] = async (request, shown) => {
    const { signal, body: { parsed }, headers } = request
    const coding = parsed === undefined ? requestCoding(headers) : 'identity'
    const { spooled, sha256 } = await spool.take(bytesOf(request), { coding, maxBytes: plan.maxBytes, signal })
    try {
      let items = 0
      const intake = await open(spooled)
      for await (const batch of intake.batches) items += batch.items.length
      if (items === 0) throw httpError('empty_batch')
      // The same as of a direct request, so that a key means the same batch in either way.
      const body = intake.whole ? intake.batches[0].items : { coding, sha256 }
      return { input: { ...spooled, items, shown }, body, discard: () => spool.discard(spooled) }
    } catch (error) {
      await spool.discard(spooled)
      throw error
    }
  }
  return Object.assign(definition, { blobs, maxInlineBytes, kind: plan.kind, spool: take })
}

/** The body as sent; what the host's parser made of JSON is written as JSON again. */
function bytesOf({ body }: HttpRequest): AsyncIterable<Uint8Array> {
  const { parsed } = body
  if (parsed === undefined || typeof parsed.value === 'string' || parsed.value instanceof Uint8Array) return body.stream()
  return oneOf(Buffer.from(JSON.stringify(parsed.value) ?? ''))
}

async function* oneOf(bytes: Uint8Array): AsyncGenerator<Uint8Array, void, undefined> {
  yield bytes
}

/** Tells how far the work is before each batch. */
function watched(intake: Intake, tell: () => void): Intake {
  if (!intake.whole) return { ...intake, batches: toldOf(intake.batches, tell) }
  tell()
  return intake
}

async function* toldOf<B>(batches: AsyncIterable<B>, tell: () => void): AsyncGenerator<B, void, undefined> {
  for await (const batch of batches) {
    tell()
    yield batch
  }
}

function messageOf<T>({ kind }: Plan<T>, { total, succeeded, failed }: Report): string {
  const done = kind === 'create' ? 'created' : 'updated'
  return `${total} ${total === 1 ? 'item' : 'items'}: ${succeeded} ${done}, ${failed} failed.`
}
