import { cutText } from '../../runtime/cut-text.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import type { TaskProgress } from '../record/record.js'

/** In UTF-16 units. */
const MAX_MESSAGE = 500

/**
 * Takes reports of progress as often as they come and writes them no closer than `intervalMs`
 * apart, one write at a time, the newest winning. The first is written at once.
 */
export class ProgressWriter {
  private latest: TaskProgress | undefined
  private timer: ReturnType<typeof setTimeout> | undefined
  private writing: Promise<void> | undefined
  private closed = false

  constructor(
    private readonly write: (progress: TaskProgress) => Promise<void>,
    private readonly intervalMs: number,
  ) {}

  /** A report; numbers that are none are dropped, so a careless `done / 0` harms nothing. */
  readonly report = (done: number, total?: number, message?: string): void => {
    if (this.closed || !Number.isFinite(done)) return
    this.latest = {
      done,
      ...(total !== undefined && Number.isFinite(total) ? { total } : {}),
      ...(typeof message === 'string' ? { message: cutText(message, MAX_MESSAGE) } : {}),
    }
    if (!this.timer && !this.writing) this.flush()
  }

  /** Takes no more reports; gives one that has not been written, once no write is under way. */
  close(): MaybePromise<TaskProgress | undefined> {
    this.closed = true
    if (this.timer) clearTimeout(this.timer)
    return this.writing ? this.writing.then(() => this.latest) : this.latest
  }

  private flush(): void {
    const progress = this.latest
    this.timer = undefined
    if (!progress || this.closed) return
    this.latest = undefined
    this.writing = this.write(progress).catch(() => undefined).then(() => {
      this.writing = undefined
      if (this.closed) return
      this.timer = setTimeout(() => { this.flush() }, this.intervalMs)
      this.timer.unref()
    })
  }
}
