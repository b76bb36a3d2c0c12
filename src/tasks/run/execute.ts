import type { ErrorCode } from '../../http/errors.js'
import {
  type Attempt, type DeadReason, type Job, isHandBack, QueueClosingError,
} from '../../queues/queue.js'
import { AttemptFailed, CANCELLED, finish, TaskAttempt } from './attempt.js'
import { failed } from './ending.js'
import type { ExecutorSettings } from './executor-settings.js'
import { failureOf } from './failure.js'
import { isJobOf } from '../record/ids.js'
import type { VersionedRecord } from '../record/ledger.js'
import { isFinal } from '../record/state.js'
import { Stop } from './stop.js'
import { reportError } from '../record/report-error.js'

/** Runs jobs. Writes the outcome to the record, unless a later run or a cancel was faster. */
export class Executor {
  /** The stops of active runs by the ids of their jobs. */
  private readonly running = new Map<string, Stop>()
  /** The stops of active runs that another process can continue from a checkpoint. */
  private readonly resumable = new Set<Stop>()
  /** End of the drain time by `performance.now()`, once this process closes. */
  private drainEnd: number | undefined

  constructor(private readonly settings: ExecutorSettings) {}

  /** Number of tasks that run in this process. */
  get size(): number {
    return this.running.size
  }

  /** Returns how long a final task of this kind is kept, in milliseconds. */
  retentionMs(name: string): number {
    return this.settings.definitions.get(name)?.retentionMs ?? this.settings.retentionMs
  }

  /** Aborts the run of a job in this process, if there is one. */
  abort(jobId: string): void {
    this.running.get(jobId)?.abort(CANCELLED)
  }

  /**
   * Aborts the runs that another process can continue from a checkpoint, because this process
   * closes. They may continue for `drainMs`.
   */
  handOver(drainMs: number): void {
    this.drainEnd = performance.now() + drainMs
    for (const stop of this.resumable) stop.abort(new QueueClosingError(), drainMs)
  }

  /**
   * Runs one job. Resolves if it needs no other attempt. Rejects so that the queue retries it, or
   * gives it to another process.
   */
  async run(job: Job, attempt: Attempt): Promise<void> {
    const stop = new Stop(attempt)
    // Added before the record says that it runs, so that no cancel is missed in between.
    this.running.set(job.id, stop)
    if (this.settings.durable && this.settings.definitions.get(job.name)?.checkpoint) {
      this.addResumable(stop)
    }
    try {
      await new TaskAttempt(this.settings, this.retentionMs(job.name), job, attempt, stop).perform()
    } catch (error) {
      if (!(error instanceof AttemptFailed || isHandBack(error))) reportError(this.settings, error, job, attempt.attempt)
      throw error
    } finally {
      stop.end()
      this.resumable.delete(stop)
      if (this.running.get(job.id) === stop) this.running.delete(job.id)
    }
  }

  private addResumable(stop: Stop): void {
    this.resumable.add(stop)
    if (this.drainEnd === undefined) return
    stop.abort(new QueueClosingError(), Math.max(this.drainEnd - performance.now(), 0))
  }

  /** Fails the record of a task whose process has died with its work. */
  async interrupt(id: string, holder: string): Promise<void> {
    const found = await this.settings.ledger.load(id)
    if (found?.record.holder !== holder || isFinal(found.record.state)) return
    await this.fail(found, 'task_interrupted')
  }

  /** Fails a task from outside of a run. */
  async fail(from: VersionedRecord, code: ErrorCode): Promise<void> {
    return finish(this.settings, from, this.retentionMs(from.record.name), failed(failureOf(code)))
  }

  /** Fails the record of a job that will not run again. */
  async failDead(job: Job, reason: DeadReason): Promise<void> {
    try {
      const found = await this.settings.ledger.loadWithRetry(job.taskId)
      if (!found || !isJobOf(job, found.record)) return
      await this.fail(found, reason === 'attempts' ? 'task_failed' : 'task_interrupted')
    } catch (error) {
      reportError(this.settings, error, job, 0)
      // An engine that keeps its dead jobs calls this again.
      throw error
    }
  }
}
