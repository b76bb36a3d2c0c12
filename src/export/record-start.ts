import type { RecordCursor } from './record-cursor.js'

/** Position at which the source of the records begins. */
export class RecordStart {
  /** The source begins after the records that were written. */
  private isUsed = false
  private isOver = false

  /** @param written - number of records that earlier runs have written */
  constructor(private readonly written: number) {}

  /** Member `from` of the context of `records`. A property, so that it may be destructured. */
  readonly from = (): number => {
    if (this.isOver) {
      throw new TypeError('from() was called too late: call it before the first record')
    }
    this.isUsed = true
    return this.written
  }

  /**
   * Moves a cursor to the first record that is not written. Waits for the first record, because a
   * generator begins only then. Rejects when the signal aborts.
   */
  async reach(cursor: RecordCursor<unknown>, signal: AbortSignal): Promise<void> {
    if (this.written === 0) return
    signal.throwIfAborted()
    let stop: (() => void) | undefined
    const aborted = new Promise<never>((_, reject) => {
      stop = () => { reject(signal.reason as Error) }
      signal.addEventListener('abort', stop, { once: true })
    })
    try {
      await Promise.race([aborted, this.skip(cursor, signal)])
    } finally {
      if (stop) signal.removeEventListener('abort', stop)
    }
  }

  private async skip(cursor: RecordCursor<unknown>, signal: AbortSignal): Promise<void> {
    await cursor.hasNext()
    this.isOver = true
    for (let left = this.isUsed ? 0 : this.written; left > 0;) {
      signal.throwIfAborted()
      const skipped = await cursor.take(left)
      if (skipped.length === 0) return
      left -= skipped.length
    }
  }
}
