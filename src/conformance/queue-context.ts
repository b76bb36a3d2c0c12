import assert from 'node:assert/strict'
import {
  type Attempt, type DeadReason, type EnqueueOptions, type Job, type ProcessOptions, type Queue,
} from '../queues/queue.js'
import { eventually, inTime, pause } from './waiting.js'

/** A fresh, empty queue for one test. */
export interface QueueFixture {
  readonly queue: Queue
  /** Second queue on the same data, as in another process that only enqueues. */
  readonly producer?: Queue
  /**
   * Maximum number of waiting jobs before `process` is called, 50 or more. Omit if there is no
   * limit.
   */
  readonly capacity?: number
  /** Cleans up after the test. Default: closes the queues without draining. */
  readonly close?: () => Promise<void> | void
}

/** Options of `queueConformance`. */
export interface QueueConformanceOptions {
  /** Title of the suite. Default: `Queue conformance`. */
  readonly title?: string
  /** Tolerance of delays and of the duration of a call, in milliseconds. Default 50. */
  readonly toleranceMs?: number
  /** Time limit for each expected event, in milliseconds. Default 5000. */
  readonly timeoutMs?: number
}

/** One call of `run`. */
export interface Ran {
  readonly job: Job
  readonly attempt: number
  readonly lastAttempt: boolean
  readonly at: number
}

/** Helpers of one test. */
export class QueueContext {
  readonly queue: Queue
  readonly producer: Queue
  readonly capacity: number | undefined
  readonly toleranceMs: number
  readonly timeoutMs: number
  /** Runs so far, and dead jobs so far. */
  readonly runs: Ran[] = []
  readonly dead: { readonly id: string; readonly reason: DeadReason }[] = []
  readonly #fixture: QueueFixture
  readonly #prefix = Math.random().toString(36).slice(2)

  constructor(
    fixture: QueueFixture,
    { toleranceMs = 50, timeoutMs = 5000 }: QueueConformanceOptions,
  ) {
    this.#fixture = fixture
    this.queue = fixture.queue
    this.producer = fixture.producer ?? fixture.queue
    this.capacity = fixture.capacity
    this.toleranceMs = toleranceMs
    this.timeoutMs = timeoutMs
  }

  /** Delay in milliseconds that a test can distinguish from none. */
  get delay(): number {
    return 2 * this.toleranceMs + 50
  }

  job(name: string | number = 'job', input: unknown = { name }): Job {
    const id = `${this.#prefix}-${name}`
    return { id, taskId: `task-${id}`, name: 'conformance', input }
  }

  /** Enqueues a job that must be accepted. */
  async accepted(job: Job, options?: EnqueueOptions): Promise<Job> {
    assert.equal(await this.producer.enqueue(job, options), 'accepted')
    return job
  }

  /** Starts processing with `run`. Records every run and every dead job. */
  process(
    run: (job: Job, attempt: Attempt) => Promise<void> | void = () => undefined,
    options: Partial<ProcessOptions> = {},
  ): void {
    this.queue.process(
      async (job, attempt) => {
        this.runs.push({
          job,
          attempt: attempt.attempt,
          lastAttempt: attempt.lastAttempt,
          at: performance.now(),
        })
        await run(job, attempt)
      },
      {
        concurrency: 1,
        onDead: (job, reason) => {
          this.dead.push({ id: job.id, reason })
        },
        ...options,
      },
    )
  }

  /** Returns the number of runs of a job. */
  count(job: Job): number {
    return this.runs.filter((ran) => ran.job.id === job.id).length
  }

  /** Returns the reasons of all reports of a dead job. */
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

  /** Waits as long as an unexpected event would take. */
  quiet(): Promise<void> {
    return pause(this.toleranceMs)
  }

  async end(): Promise<void> {
    if (this.#fixture.close) return this.#fixture.close()
    await this.#fixture.queue.close({ drainMs: 0 })
    await this.#fixture.producer?.close({ drainMs: 0 })
  }
}
