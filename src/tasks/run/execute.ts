import type { ErrorCode } from '../../http/errors.js'
import { type Attempt, type DeadReason, type Job, isHandBack } from '../../queues/queue.js'
import { ShortLivedMap } from '../../queues/short-lived-map.js'
import {
  AttemptFailed, CANCELLED, failed, finish, TaskAttempt, type ExecutorSettings,
} from './attempt.js'
import { failureOf } from './failure.js'
import { isJobOf } from '../record/job-id.js'
import type { Held } from '../record/ledger.js'
import { isFinal } from '../record/state.js'
import { Stop } from './stop.js'
import { tell } from '../record/tell.js'

/**
 * A run that goes on. Emptied at its end, since V8 keeps what a Map held for longer than it is
 * there.
 */
interface Running {
  attempt: TaskAttempt | undefined
}

/** Runs jobs: moves their records along, and never lets a late run overwrite what is final. */
export class Executor {
  /** By the id of the job. */
  private readonly running = new ShortLivedMap<Running>()

  constructor(private readonly settings: ExecutorSettings) {}

  /** How many tasks run in this process. */
  get size(): number {
    return this.running.size
  }

  /** How long a finished task of this kind is kept, in milliseconds. */
  retention(name: string): number {
    return this.settings.definitions.get(name)?.retentionMs ?? this.settings.retentionMs
  }

  /** Aborts the run of a job in this process, when there is one. */
  abort(jobId: string): void {
    this.running.get(jobId)?.attempt?.stop.abort(CANCELLED)
  }

  /**
   * Runs one job. Resolves when it needs no other try; rejects so that the queue tries again, or
   * gives it to another process.
   */
  async run(job: Job, attempt: Attempt): Promise<void> {
    const run = new TaskAttempt(this.settings, this.retention(job.name), job, attempt, new Stop(attempt))
    // Known as running before its record says so: no cancel falls in between.
    const running: Running = { attempt: run }
    this.running.set(job.id, running)
    try {
      await run.perform()
    } catch (error) {
      if (!(error instanceof AttemptFailed || isHandBack(error))) tell(this.settings, error, job, attempt.attempt)
      throw error
    } finally {
      run.stop.end()
      running.attempt = undefined
      if (this.running.get(job.id) === running) this.running.delete(job.id)
    }
  }

  /** Fails the record of a task whose process has died with its work. */
  async interrupt(id: string, holder: string): Promise<void> {
    const held = await this.settings.ledger.load(id)
    if (held?.record.holder !== holder || isFinal(held.record.state)) return
    await this.fail(held, 'task_interrupted')
  }

  /** Fails a task from outside of a run. */
  fail(held: Held, code: ErrorCode): Promise<void> {
    return finish(this.settings, held, this.retention(held.record.name), failed(failureOf(code)))
  }

  /** Fails the record of a job that will not be run again. */
  async bury(job: Job, reason: DeadReason): Promise<void> {
    try {
      const { ledger } = this.settings
      const held = await ledger.patience.retry(() => ledger.load(job.taskId))
      if (!held || !isJobOf(job, held.record)) return
      await this.fail(held, reason === 'attempts' ? 'task_failed' : 'task_interrupted')
    } catch (error) {
      tell(this.settings, error, job, 0)
      // An engine that keeps its dead asks again.
      throw error
    }
  }
}
