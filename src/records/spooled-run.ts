import type { MaybePromise } from '../runtime/maybe-promise.js'
import { retryUntil } from '../stores/calls.js'
import type { PartList } from '../stores/parts.js'
import type { PartsCheckpoint, TaskContext } from '../tasks/definition/run-context.js'
import type { SpooledBody } from '../tasks/http/spool-body.js'
import type { Batch } from './batch.js'
import { positionCheck, START, type RecordPosition } from './position.js'
import { Report, type ReportSettings, type ReportSink } from './report.js'
import type { Spool } from './spool.js'
import { StoredReport } from './stored-report.js'
import { deleteTails } from './tails.js'
import type { Continuation, Outcomes } from './write-loop.js'

/** A task that runs again: the argument of `resume`. */
export interface ResumedTask {
  /** Aborts when the task is stopped. */
  readonly signal: AbortSignal
  /** Owner of the task. */
  readonly owner: string | undefined
  /** Tenant of the owner, if there is one. */
  readonly tenant: string | undefined
  /** The part of the request's context that was stored with the task. */
  readonly context: unknown
  /** Id of the task. */
  readonly taskId: string
}

export type Resume = (task: ResumedTask) => MaybePromise<string | null | undefined>

export type RecordTaskContext = Omit<TaskContext<unknown>, 'checkpoint'> & {
  readonly checkpoint: PartsCheckpoint<RecordPosition>
}

/** Settings of `SpooledRun.open`. */
export interface SpooledRunSettings {
  /** Name of the public function, for error messages. */
  readonly where: string
  readonly spool: Spool
  readonly spooled: SpooledBody
  readonly task: RecordTaskContext
  readonly resume: Resume | undefined
  readonly isPlace: (place: unknown) => boolean
  readonly report: ReportSettings
  /** Maximum size of the items in the result of the task, in bytes. */
  readonly maxInlineBytes: number
  readonly onError: (error: unknown) => void
  readonly canContinue?: (position: RecordPosition) => boolean
  /**
   * Number of records, if the parts of the report are read once the task has ended. Absent: the
   * report is in the result, and the task keeps no part.
   */
  readonly total?: number
  /** Called before each commit. */
  readonly progress: (report: Report) => void
}

/** One run of a task that writes the records of a spooled body: where it begins, and its report. */
export class SpooledRun implements Continuation {
  readonly report: Report
  /** The position after the last commit. */
  private position: RecordPosition
  /** The list of parts in the stored task; `undefined` if the stored list may differ. */
  private saved: PartList | undefined
  private savedAt = -Infinity

  private constructor(
    private readonly settings: SpooledRunSettings,
    /** The position at which this run begins. */
    readonly from: RecordPosition, readonly previous: string | undefined, readonly stored: StoredReport,
  ) {
    this.position = from
    this.report = new Report(stored, settings.report)
    this.report.continueFrom(from)
    const { attempt, checkpoint } = settings.task
    this.saved = attempt === 1 || from === checkpoint.value ? stored.list : undefined
  }

  /** Opens a run at the position that the application has stored, or else at its checkpoint. */
  static async open(settings: SpooledRunSettings): Promise<SpooledRun> {
    const { spool, spooled, task, canContinue = () => true } = settings
    const { position = START, previous } = await startOf(settings)
    const from = canContinue(position) ? position : START
    const stored = new StoredReport({
      blobs: spool.blobs, blob: spooled.blob, run: task.attempt, ttlMs: spool.partsMs,
      retry: retryUntil(task.signal), maxInlineBytes: settings.maxInlineBytes,
      onError: settings.onError,
    })
    await stored.continueFrom(from)
    return new SpooledRun(settings, from, previous, stored)
  }

  cursorAfter(batch: Batch<unknown>, outcomes: Outcomes): string {
    let items = ''
    const sink: ReportSink = {
      separator: this.stored.separator, restart: () => undefined,
      add: (text) => { items = text },
    }
    const after = new Report(sink, this.report.settings)
    after.continueFrom(this.report.counts)
    after.add(batch, outcomes)
    return JSON.stringify(this.positionAt(after, batch.last, batch.place, items))
  }

  async commit({ last, place }: Pick<Batch<unknown>, 'last' | 'place'>): Promise<void> {
    const { settings: { progress, resume, total = Infinity }, report, stored } = this
    // The status of a task that fails or is stopped says how many records it has written.
    progress(report)
    await stored.flush(last >= total)
    this.position = this.positionAt(report, last, place)
    // Another run may have begun meanwhile, because this process was suspended: then the save rejects.
    if (resume === undefined || performance.now() - this.savedAt >= SAVE_EACH_MS) await this.save()
  }

  /** Ends a run that has written all records. The task then has the list of all parts. */
  async finish(): Promise<void> {
    const { stored, settings: { total } } = this
    if (total !== undefined) await stored.flush(true)
    if (stored.list === this.saved) return
    this.position = { ...this.position, report: stored.textWith('') }
    await this.save()
  }

  /** Stores the rest of the report of a run that ends early, as parts that no list names. */
  async leaveRest(): Promise<void> {
    const { stored, settings: { spool, spooled, task: { attempt } } } = this
    // Does not wait for the blobs, because the next attempt stores the report.
    await stored.flush(true, (work) => work())
    if (!stored.isWhole) return
    await stored.clean()
    await deleteTails(spool.blobs, spooled.blob, stored.list, attempt - 1)
  }

  positionAt({ counts }: Report, done: number, place?: object, items = ''): RecordPosition {
    return { ...place && { place }, done, ...counts, report: this.stored.textWith(items) }
  }

  private async save(): Promise<void> {
    const { stored, stored: { list }, settings: { task } } = this
    await task.checkpoint.save(this.position, list === this.saved ? undefined : list)
    this.saved = list
    this.savedAt = performance.now()
    await stored.clean()
  }
}

/**
 * Returns the place at which a run begins: that of the cursor of the application, or else its
 * checkpoint.
 */
async function startOf(
  { where, resume, isPlace, task }: SpooledRunSettings,
): Promise<{ readonly position?: RecordPosition | undefined, readonly previous?: string }> {
  const { attempt, taskId, owner, tenant, context, signal, checkpoint } = task
  if (attempt === 1) return {}
  // A run without a task id is the only one.
  if (resume === undefined || taskId === undefined) return { position: checkpoint.value }
  const previous = await resume({ taskId, owner, tenant, context, signal }) ?? undefined
  if (previous === undefined) return {}
  let position: unknown
  try {
    position = JSON.parse(String(previous))
  } catch {
    // It is no position.
  }
  if (positionCheck(isPlace)(position)) return { position, previous }
  throw new TypeError(`${where}: resume must return a text that cursor() has made, or undefined`)
}

/**
 * Maximum time between two saves of a position if the application stores the cursor, in
 * milliseconds. The saves show the engine that the task makes progress, so that a crash after them
 * counts as the first one.
 */
const SAVE_EACH_MS = 500
