import type { MaybePromise } from '../runtime/maybe-promise.js'
import { retryUntil, type Retry } from '../stores/calls.js'
import type { TaskContext } from '../tasks/definition/run-context.js'
import type { SpooledBody } from '../tasks/http/spool-body.js'
import type { Batch } from './batch.js'
import { positionCheck, START, type RecordPosition } from './position.js'
import { Report, type ReportSettings, type ReportSink } from './report.js'
import type { Spool } from './spool.js'
import { StoredReport } from './stored-report.js'
import type { Continuation, Outcomes } from './write-loop.js'

/** A task that runs again: the argument of `resume`. */
export interface ResumedTask {
  /** Aborts when the task is stopped. */
  readonly signal: AbortSignal
  /** Owner of the task. */
  readonly owner: string | undefined
  /** The part of the request's context that was stored with the task. */
  readonly context: unknown
  /** Id of the task. */
  readonly taskId: string
}

export type Resume = (task: ResumedTask) => MaybePromise<string | null | undefined>

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
    const { spool, spooled, task, resume, canContinue = () => true } = settings
    const { position = START, previous } = await startOf(settings)
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
    await this.stored.flush()
    await this.save(this.position(this.report, last, place))
  }

  position({ counts }: Report, done: number, place?: object, items = ''): RecordPosition {
    return { ...place && { place }, done, ...counts, report: this.stored.textWith(items) }
  }
}

/**
 * Returns the place at which a run begins: that of the cursor of the application, or else its
 * checkpoint.
 */
async function startOf(
  { caller, resume, isPlace, task }: TaskRunSettings,
): Promise<{ readonly position?: RecordPosition | undefined, readonly previous?: string }> {
  const { attempt, taskId, owner, context, signal, checkpoint } = task
  if (attempt === 1) return {}
  // A run without a task id is the only one.
  if (resume === undefined || taskId === undefined) return { position: checkpoint.value }
  const previous = await resume({ taskId, owner, context, signal }) ?? undefined
  if (previous === undefined) return {}
  let position: unknown
  try {
    position = JSON.parse(String(previous))
  } catch {
    // It is no position.
  }
  if (positionCheck(isPlace)(position)) return { position, previous }
  throw new TypeError(`${caller}: resume must return a text that cursor() has made, or undefined`)
}

/**
 * Maximum time between two saves of a position if the application stores the cursor, in
 * milliseconds.
 */
const SAVE_EACH_MS = 500

/**
 * Returns the function that saves the position of a run after each batch. If the application stores
 * the cursor, it saves only the first one and then one in each half second: they show the engine
 * that the task gets on, so that a crash after them counts as the first one. If another run has
 * begun meanwhile, because this process was suspended, the save is rejected and this run ends.
 */
function positionSaver(
  resume: Resume | undefined, checkpoint: RecordTaskContext['checkpoint'],
): (position: RecordPosition) => Promise<void> {
  if (resume === undefined) return (position) => checkpoint.save(position)
  let savedAt = -Infinity
  return async (position) => {
    if (performance.now() - savedAt < SAVE_EACH_MS) return
    await checkpoint.save(position)
    savedAt = performance.now()
  }
}
