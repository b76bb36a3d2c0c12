import { retryUntil, type Retry } from '../stores/calls.js'
import type { TaskContext } from '../tasks/definition/run-context.js'
import { positionSaver, resumedFrom, type Resume } from '../tasks/definition/resume.js'
import type { Spool, SpooledBody } from '../tasks/definition/spool.js'
import type { Batch } from './batch.js'
import { positionCheck, START, type RecordPosition } from './position.js'
import { Report, type ReportSettings, type ReportSink } from './report.js'
import { StoredReport } from './stored-report.js'
import { checkOutcomes, type Continuation, type Outcomes } from './write-loop.js'

/** Context of a task that writes records. */
export type RecordTaskContext = TaskContext<unknown, RecordPosition>

/** Settings of `TaskRun.open`. */
export interface TaskRunSettings {
  /** Name of the public function, for error messages. */
  readonly caller: string
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
  /** Called before each commit. */
  readonly progress: (report: Report) => void
}

/** One run of a task that writes the records of a spooled body: where it begins, and its report. */
export class TaskRun implements Continuation {
  private constructor(
    private readonly settings: TaskRunSettings,
    /** The position at which this run begins. */
    readonly from: RecordPosition, readonly previous: string | undefined,
    readonly report: Report, readonly stored: StoredReport,
    /** Repeats a write while the blobs are unavailable. */
    readonly retry: Retry,
    private readonly save: (position: RecordPosition) => Promise<void>,
  ) {}

  /** Opens a run at the position that the application has stored, or else at its checkpoint. */
  static async open(settings: TaskRunSettings): Promise<TaskRun> {
    const { caller, spool, spooled, task, resume, isPlace, canContinue = () => true } = settings
    const { position = START, previous } = (
      await resumedFrom(caller, resume, positionCheck(isPlace), task)
    )
    const from = canContinue(position) ? position : START
    const retry = retryUntil(task.signal)
    const parts = spool.parts(spooled, task.attempt, retry)
    const stored = new StoredReport(parts, settings.maxInlineBytes, settings.onError)
    await stored.continueFrom(from)
    const report = new Report(stored, settings.report)
    report.continueFrom(from)
    const save = positionSaver(resume, task.checkpoint)
    return new TaskRun(settings, from, previous, report, stored, retry, save)
  }

  cursorAfter(batch: Batch<unknown>, outcomes: Outcomes): string {
    checkOutcomes(batch, outcomes)
    let items = ''
    const sink: ReportSink = {
      separator: this.stored.separator, restart: () => undefined,
      add: (text) => { items = text },
    }
    const after = new Report(sink, this.report.settings)
    after.continueFrom(this.report.counts)
    after.add(batch, outcomes)
    return JSON.stringify(this.position(after, batch.last, batch.place, items))
  }

  async commit({ last, place }: Pick<Batch<unknown>, 'last' | 'place'>): Promise<void> {
    // The status of a task that fails or is stopped says how many records it has written.
    this.settings.progress(this.report)
    await this.stored.shorten()
    await this.save(this.position(this.report, last, place))
  }

  /** Returns the position after the records of a report. */
  position(
    { counts }: Report, done: number, place?: object, items = '',
  ): RecordPosition {
    return { ...place && { place }, done, ...counts, report: this.stored.textWith(items) }
  }
}
