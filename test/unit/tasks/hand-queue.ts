import assert from 'node:assert/strict'
import type { Job, ProcessOptions, Queue, RunJob } from '../../../src/queues/queue.js'

/** A queue that does what the test says, as a broker may: hand a job out twice, late, or never. */
export class HandQueue implements Queue {
  readonly jobs: Job[] = []
  private run: RunJob | undefined
  private options: ProcessOptions | undefined
  constructor(readonly durable = false) {}
  async enqueue(job: Job) {
    // As over a wire: never the same object.
    this.jobs.push(JSON.parse(JSON.stringify(job)) as Job)
    return 'accepted' as const
  }

  process(run: RunJob, options: ProcessOptions) {
    this.run = run
    this.options = options
  }

  async remove() { return false }
  async has(id: string) { return this.jobs.some((job) => job.id === id) }
  async close() { await Promise.resolve() }

  /** Hands the first job out; resolves to whether it was acknowledged. */
  async deliver(attempt = 1, lastAttempt = true, signal = new AbortController().signal): Promise<boolean> {
    const job = this.jobs[0]
    assert.ok(job && this.run)
    return this.run(job, { attempt, lastAttempt, signal }).then(() => true, () => false)
  }

  async die(reason: 'attempts' | 'stalled' | 'closed') {
    await this.options?.onDead(this.jobs[0] as Job, reason)
  }
}
