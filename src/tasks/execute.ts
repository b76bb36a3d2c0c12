import { isPending } from '../http/around.js'
import type { Attempt, DeadReason, Job } from '../queues/queue.js'
import { Transit } from '../queues/transit.js'
import { AttemptFailed, CANCELLED, failed, finish, TaskAttempt, type ExecutorSettings } from './attempt.js'
import { failureOf } from './failure.js'
import { isFinal } from './state.js'
import { Stop } from './stop.js'
import { tell } from './tell.js'

const DONE = Promise.resolve()

/** A run that goes on. Emptied at its end, since V8 keeps what a Map held for longer than it is there. */
interface Running {
  attempt: TaskAttempt | undefined
}

/** Runs jobs: moves their records along, and never lets a late run overwrite what is final. */
export class Executor {
  private readonly running = new Transit<Running>()

  constructor(private readonly settings: ExecutorSettings) {}

  /** How many tasks run in this process. */
  get size(): number {
    return this.running.size
  }

  /** How long a finished task of this kind is kept, in milliseconds. */
  retention(name: string): number {
    return this.settings.definitions.get(name)?.retentionMs ?? this.settings.retentionMs
  }

  /** Aborts the run of a task in this process, when there is one. */
  abort(id: string): void {
    this.running.get(id)?.attempt?.stop.abort(CANCELLED)
  }

  /** Runs one job. Resolves when it needs no other try; rejects, or throws, so that the queue tries again. */
  run(job: Job, attempt: Attempt): Promise<void> {
    const { taskId } = job
    // A job that comes twice has to see what the run that goes on has begun.
    this.running.get(taskId)?.attempt?.turnOver()
    const run = new TaskAttempt(this.settings, this.retention(job.name), job, attempt, new Stop(attempt))
    // Known as running before its record says so: no cancel falls in between.
    const running: Running = { attempt: run }
    this.running.set(taskId, running)
    const fail = (error: unknown): never => {
      this.end(taskId, running)
      if (!(error instanceof AttemptFailed)) tell(this.settings, error, job, attempt.attempt)
      throw error
    }
    try {
      const done = run.perform()
      if (isPending(done)) return done.then(() => { this.end(taskId, running) }, fail)
    } catch (error) {
      return fail(error)
    }
    this.end(taskId, running)
    return DONE
  }

  private end(taskId: string, running: Running): void {
    running.attempt?.stop.end()
    running.attempt = undefined
    if (this.running.get(taskId) === running) this.running.delete(taskId)
  }

  /** Fails the record of a task whose process has died with its work. */
  async interrupt(id: string, holder: string): Promise<void> {
    const held = await this.settings.ledger.load(id)
    if (held?.record.holder !== holder || isFinal(held.record.state)) return
    await finish(this.settings, held, this.retention(held.record.name), failed(failureOf('task_interrupted')))
  }

  /** Fails the record of a job that will not be run again. */
  async bury(job: Job, reason: DeadReason): Promise<void> {
    try {
      const { ledger } = this.settings
      const held = await ledger.patience.retry(() => ledger.load(job.taskId))
      if (held) await finish(this.settings, held, this.retention(job.name), failed(failureOf(reason === 'attempts' ? 'task_failed' : 'task_interrupted')))
    } catch (error) {
      tell(this.settings, error, job, 0)
      // An engine that keeps its dead asks again.
      throw error
    }
  }
}
