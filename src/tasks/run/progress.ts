import { cutText } from '../../runtime/text.js'
import type { TaskProgress } from '../record/details.js'

/** In UTF-16 units. */
const MAX_MESSAGE_LENGTH = 500

/**
 * Accepts progress reports as often as they come. Writes the newest one at most every `intervalMs`,
 * one write at a time. The first is written at once.
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

  /** Takes a report. Drops numbers that are not finite, so a careless `done / 0` does no harm. */
  report(done: number, total?: number, message?: string): void {
    if (this.closed || !Number.isFinite(done)) return
    this.latest = {
      done,
      ...(total !== undefined && Number.isFinite(total) ? { total } : {}),
      ...(typeof message === 'string' ? { message: cutText(message, MAX_MESSAGE_LENGTH) } : {}),
    }
    if (!this.timer && !this.writing) this.flush()
  }

  /**
   * Takes no more reports. Waits for a write in progress and returns the report not yet written.
   */
  async close(): Promise<TaskProgress | undefined> {
    this.closed = true
    clearTimeout(this.timer)
    await this.writing
    return this.latest
  }

  private flush(): void {
    const progress = this.latest
    this.timer = undefined
    if (!progress || this.closed) return
    this.latest = undefined
    this.writing = this.writeOnce(progress)
  }

  private async writeOnce(progress: TaskProgress): Promise<void> {
    // A failed write does no harm: the end of the run writes the record too.
    await this.write(progress).catch(() => undefined)
    this.writing = undefined
    if (this.closed) return
    this.timer = setTimeout(() => { this.flush() }, this.intervalMs)
    this.timer.unref()
  }
}
