import type { Job } from '../../src/queues/queue.js'
import { textBytes } from './text.js'

type Parts = Pick<Job, 'input' | 'context'>

/** A job as JSON text, with the little beside it that tells what job it is. */
export class JobText {
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
