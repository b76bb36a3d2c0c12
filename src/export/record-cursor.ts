import type { RecordSource } from '../ndjson/download.js'
import { isList } from '../ndjson/record-text.js'
import { unlessAborted } from '../runtime/timers.js'

/** Maximum number of records that are taken from a source of single records at once. */
const MAX_BATCH = 500

/** Reads records of a source in batches, for one part of an export after the other. */
export class RecordCursor<T> {
  private readonly iterator: AsyncIterator<T | readonly T[]> | Iterator<T | readonly T[]>
  private readonly isSync: boolean
  private batch: readonly T[] = []
  private at = 0
  private isEnded = false

  constructor(private readonly source: RecordSource<T>) {
    this.isSync = !(Symbol.asyncIterator in source)
    this.iterator = Symbol.asyncIterator in source
      ? source[Symbol.asyncIterator]()
      : source[Symbol.iterator]()
  }

  /** Returns the next records, at most `limit`. Returns an empty list at the end. */
  async take(limit: number): Promise<readonly T[]> {
    if (!await this.hasNext()) return []
    const taken = this.batch.slice(this.at, this.at + limit)
    this.at += taken.length
    return taken
  }

  async hasNext(): Promise<boolean> {
    while (this.at >= this.batch.length && !this.isEnded) {
      this.at = 0
      this.batch = this.isSync ? this.readSync() : await this.readAsync()
    }
    return this.at < this.batch.length
  }

  async peek(): Promise<T | undefined> {
    return await this.hasNext() ? this.batch[this.at] : undefined
  }

  /** Stops the source. Does not wait for it, because it may hang. */
  close(): void {
    if (this.isEnded) return
    this.isEnded = true
    try {
      const { destroy } = this.source as { destroy?: unknown }
      // The iterator of a stream would wait for the next chunk.
      if (typeof destroy === 'function') destroy.call(this.source)
      else Promise.resolve(this.iterator.return?.()).catch(() => undefined)
    } catch {
      // The source is no longer read, so its error is ignored.
    }
  }

  private async readAsync(): Promise<readonly T[]> {
    return this.listOf(await this.iterator.next())
  }

  /** Collects single records, because a promise for each would cost more than its text. */
  private readSync(): readonly T[] {
    const records: T[] = []
    while (records.length < MAX_BATCH) {
      const step = (this.iterator as Iterator<T | readonly T[]>).next()
      if (step.done !== true && !isList(step.value)) records.push(step.value)
      else return [...records, ...this.listOf(step)]
    }
    return records
  }

  private listOf(step: IteratorResult<T | readonly T[], unknown>): readonly T[] {
    if (step.done === true) {
      this.isEnded = true
      return []
    }
    return isList(step.value) ? step.value : [step.value]
  }
}

export class RecordStart {
  /** The source begins after the records that were written. */
  private isUsed = false
  private isOver = false

  constructor(private readonly written: number) {}

  /**
   * The property `from` of the context of `records`. It is a property and not a method, so that it
   * can be destructured.
   */
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
    const skip = async (): Promise<void> => {
      await cursor.hasNext()
      this.isOver = true
      for (let left = this.isUsed ? 0 : this.written; left > 0;) {
        signal.throwIfAborted()
        const skipped = await cursor.take(left)
        if (skipped.length === 0) return
        left -= skipped.length
      }
    }
    await unlessAborted(skip(), signal)
  }
}
