import { clearTimeout, setTimeout } from './timers.js'

/**
 * Makes the first write at once and later ones after a pause, in which more is gathered. Makes one
 * write at a time.
 */
export class PacedWrites {
  private isDue = false
  private isUrgent = false
  private isClosed = false
  private writing: Promise<void> | undefined
  /** The pause after a write. */
  private pause: NodeJS.Timeout | undefined

  /**
   * @param write - writes everything that was gathered. Must not reject. If something is left, it
   * calls `request`.
   * @param pauseMs - returns the time from the end of a write to the next one, in milliseconds
   */
  constructor(private readonly write: () => Promise<void>, private readonly pauseMs: () => number) {}

  /**
   * Asks for a write.
   *
   * @param isUrgent - true makes it without a pause
   */
  request(isUrgent = false): void {
    this.isDue = true
    this.isUrgent ||= isUrgent
    if (!this.writing && (!this.pause || this.isUrgent)) this.start()
  }

  /** Makes writes without pauses until `isDone`, or until there is nothing to write. */
  async flush(isDone = () => false): Promise<void> {
    while (!isDone() && (this.isDue || this.writing)) {
      if (this.isDue) this.request(true)
      await this.writing
    }
    if (!this.isDue) this.endPause()
  }

  /** Makes no more writes. Resolves when no write is under way. */
  async close(): Promise<void> {
    this.isClosed = true
    this.endPause()
    await this.writing
  }

  private endPause(): void {
    clearTimeout(this.pause)
    this.pause = undefined
  }

  private start(): void {
    this.endPause()
    if (!this.isDue || this.isClosed) return
    this.isDue = false
    this.isUrgent = false
    this.writing = this.writeOnce()
  }

  private async writeOnce(): Promise<void> {
    await this.write()
    this.writing = undefined
    if (this.isUrgent) this.start()
    else if (!this.isClosed) this.pause = setTimeout(() => { this.start() }, this.pauseMs()).unref()
  }
}
