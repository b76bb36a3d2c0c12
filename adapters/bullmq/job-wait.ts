import { clearTimeout, setTimeout } from '../../src/runtime/timers.js'
import type { TaskContext } from '../../src/tasks/definition/run-context.js'
import { listen, type JobEvents, type JobQueue, type QueuedJob } from './job-queue.js'

/** Time between two looks at a job, in milliseconds: an event may be lost, or trimmed from its stream. */
const LOOK_MS = 10_000
/** Delay after a look that failed, in milliseconds. */
const RETRY_MS = 1000

/** Errors of the server that pass. */
const PASSING = /^(?:LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|NOREPLICAS|BUSY|UNBLOCKED) /

/** The run that waits. */
interface WaitingRun {
  readonly signal: TaskContext['signal']
  /** Called with each progress of the job. */
  readonly onProgress: (value: unknown) => void
}

/** The wait of one run for one job. */
export class JobWait {
  private isLookDue = false
  private wake: () => void = () => undefined
  private readonly unlisten: () => void
  private readonly signal: TaskContext['signal']
  private readonly onProgress: (value: unknown) => void

  constructor(
    private readonly queue: JobQueue, events: JobEvents, private readonly jobId: string,
    { signal, onProgress }: WaitingRun,
  ) {
    this.signal = signal
    this.onProgress = onProgress
    this.unlisten = listen(events, jobId, ({ data }) => {
      if (data === undefined) this.look()
      else onProgress(data)
    })
    signal.addEventListener('abort', () => { this.look() }, { once: true })
  }

  /** Adds the job, unless it is there. An error of `add` counts if Redis then responds and has no job. */
  async add(add: () => Promise<unknown>): Promise<void> {
    for (let errors: unknown[] = []; await this.state() === 'unknown';) {
      if (errors.length > 0) throw errors[0]
      errors = await add().then(() => [], (error: unknown) => [error])
      if (errors.length === 0) return
    }
  }

  /** Returns the job once it has ended; `undefined` if it was removed. */
  async end(): Promise<{ readonly state: 'completed' | 'failed', readonly job: QueuedJob } | undefined> {
    for (;;) {
      this.isLookDue = false
      const state = await this.state()
      const job = await this.ask(() => this.queue.getJob(this.jobId))
      if (job === undefined) return undefined
      // BullMQ reads 0 from a job that has not reported progress.
      if (job.progress !== 0) this.onProgress(job.progress)
      if (state === 'completed' || state === 'failed') return { state, job }
      if (!this.isLookDue) await this.pause(LOOK_MS)
    }
  }

  close(): void {
    this.unlisten()
  }

  private state(): Promise<string> {
    return this.ask(() => this.queue.getJobState(this.jobId))
  }

  /** Repeats a question while Redis is unavailable. The time limit of the run ends it. */
  private async ask<T>(question: () => Promise<T>): Promise<T> {
    for (;;) {
      this.signal.throwIfAborted()
      try {
        return await question()
      } catch (error) {
        const { name, message } = error as Error
        if (name === 'ReplyError' && !PASSING.test(message)) throw error
        await this.pause(RETRY_MS)
      }
    }
  }

  private look(): void {
    this.isLookDue = true
    this.wake()
  }

  /** Waits for `ms` milliseconds, or until an event requires a look. */
  private async pause(ms: number): Promise<void> {
    if (this.signal.aborted) return
    let timer: ReturnType<typeof setTimeout> | undefined
    await new Promise<void>((resolve) => {
      this.wake = resolve
      timer = setTimeout(resolve, ms).unref()
    })
    clearTimeout(timer)
  }
}
