import assert from 'node:assert/strict'
import {
  type Attempt, type DeadReason, type EnqueueOptions, type Job, type ProcessOptions, type Queue,
} from '../queues/queue.js'
import { eventually, inTime, pause } from './waiting.js'

/** What a queue's tests are run on: a fresh, empty queue for each test. */
export interface QueueFixture {
  readonly queue: Queue
  /** The same queue as another process has it, which only enqueues. */
  readonly producer?: Queue
  /**
   * How many waiting jobs the queue takes before `process` was called, 50 or more. Leave out when
   * it has no bound.
   */
  readonly capacity?: number
  /** Cleans up after the test. Default: closes the queues without draining. */
  readonly close?: () => Promise<void> | void
}

/** How the queue suite is run. */
export interface QueueConformanceOptions {
  /** Title of the suite. Default `Queue conformance`. */
  readonly title?: string
  /** Milliseconds by which a delay may be short, and that a call may take. Default 50. */
  readonly toleranceMs?: number
  /** Milliseconds after which what has to happen counts as not happening. Default 5000. */
  readonly timeoutMs?: number
}

/** One call of `run`. */
export interface Ran { readonly job: Job, readonly attempt: number, readonly lastAttempt: boolean, readonly at: number }

/** One test's tools. */
export class QueueContext {
  readonly queue: Queue
  readonly producer: Queue
  readonly capacity: number | undefined
  readonly toleranceMs: number
  readonly timeoutMs: number
  /** What ran so far, and what was reported dead. */
  readonly runs: Ran[] = []
  readonly dead: { readonly id: string, readonly reason: DeadReason }[] = []
  readonly #fixture: QueueFixture
  readonly #prefix = Math.random().toString(36).slice(2)

  constructor(fixture: QueueFixture, { toleranceMs = 50, timeoutMs = 5000 }: QueueConformanceOptions) {
    this.#fixture = fixture
    this.queue = fixture.queue
    this.producer = fixture.producer ?? fixture.queue
    this.capacity = fixture.capacity
    this.toleranceMs = toleranceMs
    this.timeoutMs = timeoutMs
  }

  /** A delay that can be told from none. */
  get delay(): number {
    return 2 * this.toleranceMs + 50
  }

  job(name: string | number = 'job', input: unknown = { name }): Job {
    const id = `${this.#prefix}-${name}`
    return { id, taskId: `task-${id}`, name: 'conformance', input }
  }

  /** Enqueues a job that has to be accepted. */
  async accepted(job: Job, options?: EnqueueOptions): Promise<Job> {
    assert.equal(await this.producer.enqueue(job, options), 'accepted')
    return job
  }

  /** Starts processing with `run`, writing down every run and every death. */
  process(run: (job: Job, attempt: Attempt) => Promise<void> | void = () => undefined, options: Partial<ProcessOptions> = {}): void {
    this.queue.process(async (job, attempt) => {
      this.runs.push({ job, attempt: attempt.attempt, lastAttempt: attempt.lastAttempt, at: performance.now() })
      await run(job, attempt)
    }, { concurrency: 1, onDead: (job, reason) => { this.dead.push({ id: job.id, reason }) }, ...options })
  }

  /** How often the job ran. */
  count(job: Job): number {
    return this.runs.filter((ran) => ran.job.id === job.id).length
  }

  /** Why the job was reported dead, once for each report. */
  deaths(job: Job): DeadReason[] {
    return this.dead.filter((death) => death.id === job.id).map((death) => death.reason)
  }

  ran(count: number): Promise<void> {
    return this.eventually(() => this.runs.length >= count, `${count} runs begin`)
  }

  eventually(check: () => boolean | Promise<boolean>, what: string): Promise<void> {
    return eventually(check, this.timeoutMs, what)
  }

  inTime<T>(promise: Promise<T>, what: string): Promise<T> {
    return inTime(promise, this.timeoutMs, what)
  }

  /** Time in which what should not happen would have. */
  quiet(): Promise<void> {
    return pause(this.toleranceMs)
  }

  async end(): Promise<void> {
    if (this.#fixture.close) return this.#fixture.close()
    await this.#fixture.queue.close({ drainMs: 0 })
    await this.#fixture.producer?.close({ drainMs: 0 })
  }
}
