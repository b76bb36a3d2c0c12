import { checkBackoff } from '../../src/queues/backoff.js'
import { type Backoff, type EnqueueOptions, type Job } from '../../src/queues/queue.js'
import type { RunningAttempt } from '../../src/queues/running-attempt.js'
import { hasAtMost } from '../../src/schema/size.js'
import { textBytes } from './text.js'

/** A job whose input has so many members and items at most is small. */
const SMALL = 100

/** `ready` and `delayed` wait; `ended` is out of the queue. */
export type QueuedState = 'ready' | 'delayed' | 'running' | 'ended'

/** A job in the queue and how far it got. */
export class QueuedJob {
  readonly id: string
  readonly attempts: number
  readonly backoff: Backoff | undefined
  /** Bytes of memory that its text takes; 0 while it is not kept as text. */
  bytes = 0
  #job: Job | JobText | undefined
  state: QueuedState = 'delayed'
  /** Attempts begun, without those that were handed back. */
  attempt = 0
  /** While ready: the queue's turn in which it became so. */
  turn = 0
  /** While delayed: cancels the timer, and when that is due on the clock of the queue. */
  cancelTimer: (() => void) | undefined
  dueAt = 0
  /** While ready or running, where the clock is manual: lets it move again. */
  releaseClock: (() => void) | undefined
  /** While running. */
  running: RunningAttempt | undefined
  previous: QueuedJob | undefined
  next: QueuedJob | undefined

  /**
   * Keeps the job as text until it ends, because a parsed body takes up to 25 times the memory of
   * its text. Only a small job that starts `atOnce` and is not to be tried again is kept as it is.
   *
   * @throws {TypeError} an option makes no sense, or a job that is kept as text is not JSON
   */
  constructor(job: Job, { attempts = 1, backoff }: EnqueueOptions, atOnce: boolean) {
    if (!Number.isSafeInteger(attempts) || attempts < 1) throw new TypeError(`attempts must be a whole number from 1, not ${String(attempts)}`)
    if (backoff !== undefined) checkBackoff(backoff)
    this.id = job.id
    this.attempts = attempts
    this.backoff = backoff
    this.#job = job
    if (!(atOnce && attempts === 1 && hasAtMost(job.input, SMALL) && hasAtMost(job.context, SMALL))) this.keepAsText()
  }

  /**
   * The job, until it has ended. Made anew by each call, so that no attempt sees what an earlier
   * one did to the input.
   */
  get job(): Job {
    return this.#job instanceof JobText ? this.#job.open() : this.#job as Job
  }

  /** Before it waits. Throws a TypeError for a job that is not JSON. */
  keepAsText(): void {
    if (this.#job === undefined || this.#job instanceof JobText) return
    const text = new JobText(this.#job)
    this.bytes = text.bytes
    this.#job = text
  }

  /** Lets a manual clock move again, because the job is not at work. */
  noteIdle(): void {
    this.releaseClock?.()
    this.releaseClock = undefined
  }

  /**
   * Lets go of what it carries: V8 may keep what a map held for longer than it is there, see
   * `ShortLivedMap`.
   */
  end(): void {
    this.state = 'ended'
    this.noteIdle()
    this.cancelTimer = undefined
    this.#job = undefined
    this.bytes = 0
    this.running = undefined
  }
}

/** First in, first out, and out of the middle, all in constant time. */
export class ReadyList {
  #first: QueuedJob | undefined
  #last: QueuedJob | undefined

  /** Number of jobs in the line. */
  size = 0

  get first(): QueuedJob | undefined {
    return this.#first
  }

  push(item: QueuedJob): void {
    this.size++
    item.previous = this.#last
    if (this.#last === undefined) this.#first = item
    else this.#last.next = item
    this.#last = item
  }

  remove(item: QueuedJob): void {
    this.size--
    if (item.previous === undefined) this.#first = item.next
    else item.previous.next = item.next
    if (item.next === undefined) this.#last = item.previous
    else item.next.previous = item.previous
    item.previous = undefined
    item.next = undefined
  }
}

type Parts = Pick<Job, 'input' | 'context'>

/** A job as JSON text, with the little beside it that tells what job it is. */
class JobText {
  /** Bytes of memory that the text takes. */
  readonly bytes: number
  readonly #text: string
  readonly #job: Omit<Job, 'input' | 'context' | 'record'>
  readonly #hasContext: boolean

  /** Throws a TypeError for a job that is not JSON. */
  constructor({ id, taskId, name, store, input, context }: Job) {
    this.#job = { id, taskId, name, ...store !== undefined && { store } }
    this.#hasContext = context !== undefined
    this.#text = JSON.stringify({ input, context } satisfies Parts)
    // Counting the bytes makes the text flat.
    this.bytes = textBytes(this.#text)
  }

  /**
   * The job. Its text is parsed when the input or the context is read, so a job that waits for a
   * place costs no more than before.
   */
  open(): Job {
    const text = this.#text
    let parts: Parts | undefined
    const read = (): Parts => parts ??= JSON.parse(text) as Parts
    const job = { ...this.#job, get input() { return read().input } }
    return this.#hasContext ? Object.defineProperty(job, 'context', { enumerable: true, get: () => read().context }) : job
  }
}
