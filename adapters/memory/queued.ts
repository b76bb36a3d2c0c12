import { checkBackoff } from '../../src/queues/backoff.js'
import { type Backoff, type EnqueueOptions, type Job } from '../../src/queues/queue.js'
import type { RunningAttempt } from '../../src/queues/running-attempt.js'

/** `ready` and `delayed` wait; `ended` is out of the queue. */
export type QueuedState = 'ready' | 'delayed' | 'running' | 'ended'

/** A job in the queue and how far it got. */
export class Queued {
  readonly id: string
  readonly attempts: number
  readonly backoff: Backoff | undefined
  #job: Job | string | undefined
  state: QueuedState = 'delayed'
  /** Attempts begun, without those that were handed back. */
  attempt = 0
  /** While ready: the queue's turn in which it became so. */
  turn = 0
  /** While delayed: the timer, and when it ends on `performance.now()`. */
  timer: ReturnType<typeof setTimeout> | undefined
  dueAt = 0
  /** While running. */
  running: RunningAttempt | undefined
  previous: Queued | undefined
  next: Queued | undefined

  /** Throws a TypeError for options that make no sense, or a job to be tried again that is no JSON. */
  constructor(job: Job, { attempts = 1, backoff }: EnqueueOptions) {
    if (!Number.isSafeInteger(attempts) || attempts < 1) throw new TypeError(`attempts must be a whole number from 1, not ${String(attempts)}`)
    if (backoff !== undefined) checkBackoff(backoff)
    this.id = job.id
    this.attempts = attempts
    this.backoff = backoff
    // As text when it may run more than once, so that no attempt sees what an earlier one did to the input.
    this.#job = attempts === 1 ? job : JSON.stringify(job)
  }

  /** Until it has ended. */
  get job(): Job {
    return typeof this.#job === 'string' ? JSON.parse(this.#job) as Job : this.#job as Job
  }

  /** Lets go of what it carries: V8 may keep what a map held for longer than it is there, see `Transit`. */
  end(): void {
    this.state = 'ended'
    this.#job = undefined
    this.running = undefined
  }
}

/** First in, first out, and out of the middle, all in constant time. */
export class Line {
  #first: Queued | undefined
  #last: Queued | undefined

  get first(): Queued | undefined {
    return this.#first
  }

  push(item: Queued): void {
    item.previous = this.#last
    if (this.#last === undefined) this.#first = item
    else this.#last.next = item
    this.#last = item
  }

  remove(item: Queued): void {
    if (item.previous === undefined) this.#first = item.next
    else item.previous.next = item.next
    if (item.next === undefined) this.#last = item.previous
    else item.next.previous = item.previous
    item.previous = undefined
    item.next = undefined
  }
}
