import { checkBackoff } from '../../src/queues/backoff.js'
import { checkPriority } from '../../src/queues/priority.js'
import { type Backoff, type EnqueueOptions, type Job } from '../../src/queues/queue.js'
import type { RunningAttempt } from '../../src/queues/running-attempt.js'
import { hasAtMost, heapBytesOf } from '../../src/runtime/json-size.js'
import { textBytes } from './text.js'

/** Maximum number of members and items in the input of a small job. */
const SMALL = 100

/** State of a job. `ready` and `delayed` jobs wait; an `ended` job has left the queue. */
export type QueuedState = 'ready' | 'delayed' | 'running' | 'ended'

/** A job in the queue, with its state. */
export class QueuedJob {
  readonly id: string
  readonly attempts: number
  readonly backoff: Backoff | undefined
  readonly priority: number
  /** Size of the text in bytes. 0 while the job is not kept as text. */
  bytes = 0
  #job: Job | JobText | undefined
  state: QueuedState = 'delayed'
  /** Number of attempts begun, without those that were handed back. */
  attempt = 0
  /** Turn of the queue in which the job became ready. */
  turn = 0
  /** Time at which the job became ready, by the clock of the queue. */
  readyAt = 0
  /** Cancels the timer of a delayed job. `dueAt` is its end, by the clock of the queue. */
  cancelTimer: (() => void) | undefined
  dueAt = 0
  /** While ready or running, where the clock is manual: lets it move again. */
  releaseClock: (() => void) | undefined
  /** Current attempt of a running job. */
  running: RunningAttempt | undefined
  previous: QueuedJob | undefined
  next: QueuedJob | undefined

  /**
   * Keeps the job as JSON text, because a parsed body takes up to 25 times the memory of its text.
   * A small job with one attempt that starts `atOnce` is kept as it is.
   *
   * @throws {TypeError} An option is out of range, or the job is not JSON.
   */
  constructor(
    job: Job, { attempts = 1, backoff, priority = 0 }: EnqueueOptions, atOnce: boolean,
  ) {
    if (!Number.isSafeInteger(attempts) || attempts < 1) {
      throw new TypeError(`attempts must be a whole number from 1, not ${String(attempts)}`)
    }
    if (backoff !== undefined) checkBackoff(backoff)
    if (priority !== 0) checkPriority(priority)
    this.id = job.id
    this.attempts = attempts
    this.backoff = backoff
    this.priority = priority
    this.#job = job
    if (!(atOnce && attempts === 1 && hasAtMost(job.input, SMALL) && hasAtMost(job.context, SMALL))) {
      this.keepAsText()
    }
  }

  /**
   * Returns the job, until it has ended. Parses a new copy for each call, so that an attempt cannot
   * change the input of the next.
   */
  get job(): Job {
    return this.#job instanceof JobText ? this.#job.open() : this.#job as Job
  }

  /**
   * Converts the job to text before it waits.
   *
   * @throws {TypeError} The job is not JSON.
   */
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

  /** Clears the fields, because V8 may keep deleted values of a map alive. See `ShortLivedMap`. */
  end(): void {
    this.state = 'ended'
    this.noteIdle()
    this.cancelTimer = undefined
    this.#job = undefined
    this.bytes = 0
    this.running = undefined
  }
}

type Parts = Pick<Job, 'input' | 'context'>

/**
 * Length of a text whose parsed input is measured. A value takes at most 22 times as much heap as
 * text, so that a shorter text never takes a mebibyte.
 */
const LARGE_TEXT = 32_768

/** A job whose input and context are JSON text. */
class JobText {
  /** Size of the text in bytes. */
  readonly bytes: number
  readonly #text: string
  readonly #job: Omit<Job, 'input' | 'context' | 'record'>
  readonly #hasContext: boolean

  /** @throws {TypeError} The job is not JSON. */
  constructor({ id, taskId, name, store, input, context }: Job) {
    this.#text = JSON.stringify({ input, context } satisfies Parts)
    const isLarge = this.#text.length > LARGE_TEXT
    this.#job = {
      id, taskId, name, ...store !== undefined && { store },
      ...isLarge && { inputHeapBytes: heapBytesOf(input) },
    }
    this.#hasContext = context !== undefined
    // `textBytes` flattens the text.
    this.bytes = textBytes(this.#text)
  }

  /** Returns the job. Parses the text on first access to input or context. */
  open(): Job {
    const text = this.#text
    let parts: Parts | undefined
    const read = (): Parts => parts ??= JSON.parse(text) as Parts
    const job = { ...this.#job, get input() { return read().input } }
    return this.#hasContext
      ? Object.defineProperty(job, 'context', { enumerable: true, get: () => read().context })
      : job
  }
}
