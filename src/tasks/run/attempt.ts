import { httpError, isHttpError } from '../../http/errors.js'
import { readFailure } from '../../http/failure.js'
import { type Attempt, HandBackError, type Job, isQueueClosing } from '../../queues/queue.js'
import type { AnyTaskDefinition, TaskContext } from '../definition/define.js'
import { UNDECLARED } from '../definition/unsaved-checkpoint.js'
import { elapsed } from '../record/elapsed.js'
import { ended, endingOf, failed, type Ending } from './ending.js'
import { failureOf, isPermanent, toFailure } from './failure.js'
import type { ExecutorSettings } from './executor-settings.js'
import { isJobOf } from '../record/ids.js'
import type { VersionedRecord } from '../record/ledger.js'
import { CancelWatch } from './cancel-watch.js'
import { RunCheckpoint } from './checkpoint.js'
import { ProgressWriter } from './progress.js'
import type { TaskChange, TaskFailure, TaskProgress, TaskRecord } from '../record/record.js'
import { NO_FILES, type RunFiles } from './files/run-files.js'
import { openRunFiles } from './files/open-run-files.js'
import { inTime } from './in-time.js'
import { RunRecord } from './run-record.js'
import { failedOutcome, runValidated, toInput, type Outcome } from './run.js'
import { isFinal } from '../record/state.js'
import { publishCheckpointDropped } from '../record/task-channel.js'
import type { Stop } from './stop.js'
import { TaskJob } from '../record/job.js'
import { reportError } from '../record/report-error.js'

/** The abort reason of a run whose task was cancelled, or taken over by a later run. */
export const CANCELLED = new Error('The task was cancelled')

/** A definition, and the input after validation or the reason why it is invalid. */
interface Prepared {
  readonly definition: AnyTaskDefinition
  readonly input: never
  readonly error?: unknown
}

/** One attempt at one job: from the write that begins the run to the write of its outcome. */
export class TaskAttempt {
  /** The record, once the run has begun. */
  private record: RunRecord | undefined
  private writer: ProgressWriter | undefined
  private files: RunFiles | undefined
  private over = false

  constructor(
    private readonly settings: ExecutorSettings, private readonly retentionMs: number,
    private readonly job: Job, private readonly attempt: Attempt, private readonly stop: Stop,
  ) {}

  /**
   * Rejects if there has to be another attempt: with an `AttemptFailed` after a failure, with a
   * `HandBackError` if another process may be able to run it.
   */
  async perform(): Promise<void> {
    const { ledger } = this.settings
    if (!ledger.store.shared) return this.run()
    const watch = new CancelWatch(ledger, this.job.taskId, (now) => {
      const own = this.record?.attempt ?? Infinity
      const isOver = !now || !isJobOf(this.job, now) || now.attempt > own
      if (isOver || isFinal(now.state)) this.stop.abort(CANCELLED)
    })
    try {
      await this.run()
    } finally {
      watch.close()
    }
  }

  private async run(): Promise<void> {
    const { job, attempt, settings: { definitions, durable } } = this
    const definition = definitions.get(job.name)
    if (!definition) {
      return this.refuse(httpError('unknown_task'), `This process knows no task named ${job.name}`)
    }
    const { input, error } = await this.validate(definition)
    if (durable && isHttpError(error) && error.code === 'invalid_input') {
      const why = `The schema of ${job.name} in this process refuses input`
        + ' that another process accepted'
      return this.refuse(error, why)
    }
    // Others have written to the record since before a later attempt.
    const begun = await this.begin(attempt.attempt === 1 ? TaskJob.takeRecord(job, definition) : undefined)
    if (begun) await this.execute({ definition, input, error }, begun)
  }

  /**
   * Validates the input before the run begins, so that a job which this process cannot run uses up
   * no attempt.
   */
  private async validate(definition: AnyTaskDefinition): Promise<Omit<Prepared, 'definition'>> {
    if (!definition.input) return { input: this.job.input as never }
    try {
      return { input: await inTime(toInput(definition, this.job.input), definition) }
    } catch (error) {
      return { input: undefined as never, error }
    }
  }

  /** Writes that the run has begun. Returns `undefined` if there is nothing to run. */
  private async begin(carried: VersionedRecord | undefined): Promise<VersionedRecord | undefined> {
    const { job, settings: { ledger, onFinal } } = this
    const found = carried ?? await ledger.loadWithRetry(job.taskId)
    const begun = found && await ledger.moveWithRetry(found, (record) => (
      isJobOf(job, record) ? begin(record) : undefined
    ))
    if (!begun) return this.endWithoutRecord(carried?.record)
    // A leftover: the task was enqueued again, or its id was used again.
    if (!isJobOf(job, begun.record)) return undefined
    if (begun.moved) return begun
    // Cancelled, or completed by a run whose process died before the cleanup.
    if (isFinal(begun.record.state)) await onFinal(begun.record)
    return undefined
  }

  /**
   * Ends a job without a record: it was not acknowledged, was deleted, has expired, or is in the
   * store of another application. Only the last one hands the job back.
   */
  private async endWithoutRecord(carried?: TaskRecord): Promise<undefined> {
    const { job, settings: { identity, handBacks } } = this
    const now = Date.now()
    if (carried && carried.expiresAt < now) return undefined
    if (!await identity.isForeign(job.store)) return undefined
    const ageMs = carried ? now - carried.createdAt : 0
    throw handBacks.of(job, 'The record of this task is in another store', ageMs)
  }

  /**
   * Hands back a job that this process cannot run. Fails its task if no process could run it for
   * `unknownTaskMs`.
   */
  private async refuse(error: Error, why: string): Promise<void> {
    const { job, settings } = this
    const { ledger, durable, unknownTaskMs, onFinal, handBacks } = settings
    const found = await ledger.loadWithRetry(job.taskId)
    if (!found) return this.endWithoutRecord(TaskJob.takeRecord(job)?.record)
    const { record } = found
    if (!isJobOf(job, record)) return
    if (isFinal(record.state)) return onFinal(record)
    // Each run that begins restarts the time.
    const key = `stuck:${job.id}:${record.attempt}`
    const stuckMs = durable ? await elapsed(ledger.store, key, unknownTaskMs) : unknownTaskMs
    if (stuckMs >= unknownTaskMs) {
      return finish(settings, found, this.retentionMs, failed(toFailure(error)))
    }
    throw handBacks.of(job, why, stuckMs, error)
  }

  private async execute(
    { definition, input, error }: Prepared, begun: VersionedRecord,
  ): Promise<void> {
    const { job, attempt, settings: { maxResultBytes } } = this
    const { retentionMs, stop } = this
    const own = new RunRecord(this.settings.ledger, job, begun, () => { stop.abort(CANCELLED) })
    this.record = own
    const checkpoint = definition.checkpoint && this.checkpointOf(definition, own)
    if (checkpoint && own.attempt > 1) await checkpoint.claim()
    this.files = openRunFiles(this.settings, definition, {
      record: begun.record, retentionMs, stop, write: (change) => own.writeWithRetry(change),
    })
    const outcome = error !== undefined
      ? failedOutcome(error)
      : await runValidated(definition, input, {
        taskId: job.taskId, attempt: own.attempt, lastAttempt: attempt.lastAttempt,
        owner: begun.record.owner, context: job.context, progress: this.reporterOf(own), stop,
        files: this.files ?? NO_FILES, checkpoint: checkpoint ?? UNDECLARED,
        timeoutMs: definition.timeoutMs, maxResultBytes,
      })
    this.over = true
    await checkpoint?.end()
    const progress = await this.writer?.close()
    if (!this.files) return this.conclude(own, outcome, progress)
    await this.concludeWithFiles(own, this.files, outcome, progress)
  }

  /** Keeps the files of a completed task. Deletes those of every other run. */
  private async concludeWithFiles(
    own: RunRecord, files: RunFiles, outcome: Outcome, progress: TaskProgress | undefined,
  ): Promise<void> {
    const checked = files.check(outcome)
    // If the store fails, the record may be completed without an answer. The files then expire.
    let isUnknown = checked.kind === 'completed'
    try {
      await this.conclude(own, checked, progress)
      isUnknown = false
    } finally {
      const isKept = own.isOwn(own.latest) && own.latest.state === 'completed'
      if (!isKept && !isUnknown) await files.discard()
    }
  }

  private checkpointOf(definition: AnyTaskDefinition, own: RunRecord): RunCheckpoint {
    const { stop, retentionMs, job, settings } = this
    const record = own.latest
    return new RunCheckpoint({
      ledger: settings.ledger, definition, record, retentionMs, stop,
      isOwn: (now) => own.isRunning(now),
      onReplaced: () => { stop.abort(CANCELLED) },
      onDropped: (error) => {
        publishCheckpointDropped(record)
        reportError(settings, error, job, record.attempt)
      },
    })
  }

  private reporterOf(own: RunRecord): TaskContext['progress'] {
    return (done, total, message) => {
      if (this.over) return
      this.writer ??= new ProgressWriter(
        (progress) => own.write({ progress }), this.settings.progressIntervalMs,
      )
      this.writer.report(done, total, message)
    }
  }

  private async conclude(
    own: RunRecord, outcome: Outcome, progress: TaskProgress | undefined,
  ): Promise<void> {
    const { settings, job, attempt } = this
    if (outcome.kind === 'failed') {
      // An error that clients see as it is was thrown on purpose, so the host need not know it.
      const { cause, failure } = outcome
      if (!readFailure(cause).expected) reportError(settings, cause, job, own.attempt)
      const isRetried = !attempt.lastAttempt && !isPermanent(cause)
      if (isRetried) {
        return this.requeue(own, progress, failure, new AttemptFailed(failure.message))
      }
    }
    if (outcome.kind === 'aborted') {
      // Cancelled, or replaced by a later run: the record says so already.
      if (!isQueueClosing(outcome.reason)) {
        return settings.durable ? this.cleanUpCancelled() : undefined
      }
      if (settings.durable) {
        const why = new HandBackError(0, 'The worker is closing')
        return this.requeue(own, progress, failureOf('task_interrupted'), why)
      }
    }
    const end = ended(endingOf(outcome), progress, this.retentionMs)
    const files = outcome.kind === 'completed' ? this.files : undefined
    await own.writeWithRetry(
      files ? (record) => ({ ...end, ...files.recorded(record) }) : () => end,
    )
    // Also if the record was final already: an earlier try of this very write may have made it so.
    const record = own.latest
    if (isJobOf(job, record) && isFinal(record.state)) return settings.onFinal(record)
  }

  /**
   * Cleans up after a cancelled run. The process that cancelled it does so too, unless it has died
   * first.
   */
  private async cleanUpCancelled(): Promise<void> {
    const { job, settings: { ledger, onFinal } } = this
    const now = await ledger.loadWithRetry(job.taskId)
    if (!now || !isJobOf(job, now.record) || !isFinal(now.record.state)) return
    if ((now.record.callback ?? now.record.keeps) !== undefined) await onFinal(now.record)
  }

  /** Writes that the task waits again, then throws, so that the queue retries it. */
  private async requeue(
    own: RunRecord, progress: TaskProgress | undefined, runError: TaskFailure, why: Error,
  ): Promise<void> {
    const now = await own.writeWithRetry(() => ({ progress, state: 'queued', runError }))
    // Also if not moved: an earlier try of this very write may have succeeded, and its answer was
    // lost.
    if (now && own.isOwn(now.record) && now.record.state === 'queued') throw why
  }
}

const begin = (record: TaskRecord): TaskChange => ({
  state: 'processing', attempt: record.attempt + 1, startedAt: record.startedAt ?? Date.now(),
})

/**
 * Ends a record from outside a run, unless its task was enqueued again or its id was used again.
 */
export async function finish(
  settings: ExecutorSettings, from: VersionedRecord, retentionMs: number, to: Ending,
): Promise<void> {
  const { job } = from.record
  const change = ended(to, undefined, retentionMs)
  const now = await settings.ledger.moveWithRetry(from, (record) => (
    record.job === job ? change : undefined
  ))
  if (now?.record.job === job && isFinal(now.record.state)) await settings.onFinal(now.record)
}

/** The error that the queue gets for a failed attempt: enough for a log line, nothing masked. */
export class AttemptFailed extends Error {
  override readonly name = 'AttemptFailed'
}
