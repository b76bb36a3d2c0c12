import type { Job } from '../../queues/queue.js'
import { isJobOf } from '../record/ids.js'
import type { Ledger, Moved, VersionedRecord } from '../record/ledger.js'
import type { TaskChange, TaskRecord } from '../record/record.js'
import { isFinal } from '../record/state.js'

/**
 * The record of a task, as one run writes it. A write counts only while the record has the attempt
 * number of this run, so a late worker cannot overwrite a later run.
 */
export class RunRecord {
  /** Attempt number of this run. */
  readonly attempt: number

  /**
   * @param current - the record as the run began
   * @param onReplaced - called after a write that shows that the task was cancelled, or has a later
   * run
   */
  constructor(
    private readonly ledger: Ledger, private readonly job: Job, private current: VersionedRecord,
    private readonly onReplaced: () => void,
  ) {
    this.attempt = current.record.attempt
  }

  /** The record after the latest write. */
  get latest(): TaskRecord {
    return this.current.record
  }

  /** Returns whether a record is that of this run: neither of a later run, nor of another task. */
  isOwn(record: TaskRecord): boolean {
    return isJobOf(this.job, record) && record.attempt === this.attempt
  }

  /** Returns whether a record is that of this run, and the run has not ended. */
  isRunning(record: TaskRecord): boolean {
    return this.isOwn(record) && record.state === 'processing'
  }

  /** Writes a change while the run has not ended. */
  async write(to: TaskChange): Promise<void> {
    this.note(await this.ledger.move(this.current, (record) => (
      this.isRunning(record) ? to : undefined
    )))
  }

  /**
   * Writes a change as `write` does, and retries while the store is unavailable. Returns the record
   * after it; `undefined` if the record is gone.
   */
  async writeWithRetry(to: (record: TaskRecord) => TaskChange): Promise<Moved | undefined> {
    const now = await this.ledger.moveWithRetry(this.current, (record) => (
      this.isRunning(record) ? to(record) : undefined
    ))
    this.note(now)
    return now
  }

  private note(now: Moved | undefined): void {
    if (now) this.current = now
    if (!now || !this.isOwn(now.record) || isFinal(now.record.state)) this.onReplaced()
  }
}
