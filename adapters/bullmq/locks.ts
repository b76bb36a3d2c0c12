import type { Job as BullJob, Worker } from 'bullmq'

/**
 * Renews the locks of running jobs. BullMQ's own renewal compares wall-clock times: after the clock
 * was set back it renews nothing, and live jobs count as stalled. This one knows only intervals.
 */
export class Locks {
  private readonly tokens = new Map<string, string>()
  private timer: ReturnType<typeof setInterval> | undefined
  private renewing: Promise<unknown> | undefined

  constructor(
    private readonly lockDurationMs: number, private readonly onError: (error: Error) => void,
  ) {}

  start(worker: Pick<Worker, 'extendJobLocks'>): void {
    this.timer = setInterval(() => { this.renew(worker) }, this.lockDurationMs / 4)
    this.timer.unref()
  }

  /** A run has begun. */
  add({ id = '' }: Pick<BullJob, 'id'>, token = ''): void {
    this.tokens.set(id, token)
  }

  /** It has ended. If its lock was lost, this worker may have begun another run of the job. */
  remove({ id = '' }: Pick<BullJob, 'id'>, token = ''): void {
    if (this.tokens.get(id) === token) this.tokens.delete(id)
  }

  stop(): void {
    clearInterval(this.timer)
  }

  private renew(worker: Pick<Worker, 'extendJobLocks'>): void {
    // One at a time: while Redis is away, calls would pile up in its client.
    if (this.renewing || this.tokens.size === 0) return
    const ids = [...this.tokens.keys()]
    const tokens = [...this.tokens.values()]
    this.renewing = worker.extendJobLocks(ids, tokens, this.lockDurationMs).then((lost) => {
      for (const id of lost) {
        if (!this.tokens.has(id)) continue
        this.onError(new Error(`The lock of job ${id} could not be renewed: it was lost`))
      }
    }, (error: unknown) => {
      this.onError(error instanceof Error ? error : new Error(String(error)))
    }).finally(() => { this.renewing = undefined })
  }
}
