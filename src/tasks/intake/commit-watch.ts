import type { Unsubscribe } from '../../stores/store.js'
import { taskKey } from '../record/ids.js'
import type { VersionedRecord } from '../record/ledger.js'
import type { TaskRecord } from '../record/record.js'
import { enqueueCommitted, type EnqueueSettings } from './enqueue-committed.js'

/**
 * Time for which the commit of a task is awaited, in milliseconds. The sweep of a worker finds the
 * task if it commits later.
 */
const EXPECTED_MS = 60_000
/** Maximum number of tasks whose commit is awaited. The sweep finds the others. */
const MAX_EXPECTED = 10_000

/** Settings of a `CommitWatch`. */
export type CommitWatchSettings = EnqueueSettings

/**
 * Enqueues the tasks that this process has accepted in transactions, as soon as those commit. The
 * store gives notice of each record when the transaction that wrote it commits.
 *
 * All failures are ignored here, because the sweep enqueues the task a few seconds later.
 */
export class CommitWatch {
  private readonly expected = new Map<string, ExpectedCommit>()
  private closed = false

  constructor(private readonly settings: CommitWatchSettings) {}

  /** Number of tasks whose commit is awaited. */
  get size(): number {
    return this.expected.size
  }

  /**
   * Awaits the commit of a record. Call before the record is written. Does not wait for the watch:
   * the store may use the connection of the transaction for it.
   */
  expect(record: TaskRecord): void {
    this.expected.get(record.id)?.close()
    if (this.closed || this.expected.size >= MAX_EXPECTED) return
    const expected = new ExpectedCommit(this.settings, record, () => {
      if (this.expected.get(record.id) === expected) this.expected.delete(record.id)
    })
    this.expected.set(record.id, expected)
  }

  /**
   * Enqueues a task whose transaction has ended. Returns its record, or `undefined` if the
   * transaction was rolled back.
   */
  async confirm(id: string): Promise<VersionedRecord | undefined> {
    const found = await this.settings.ledger.load(id)
    const expected = this.expected.get(id)
    expected?.close()
    // It was enqueued before if nothing expects it any more.
    if (found && expected) await enqueueCommitted(this.settings, found).catch(() => undefined)
    return found
  }

  /** Stops watching. Tasks whose transaction is still open are left to the sweeps. */
  close(): void {
    this.closed = true
    for (const expected of this.expected.values()) expected.close()
  }
}

/** One task whose transaction may be open. */
class ExpectedCommit {
  private closed = false
  private unwatch: Unsubscribe | undefined
  private readonly timer: ReturnType<typeof setTimeout>

  /** @param onClose - called once, when the commit is no longer awaited */
  constructor(
    private readonly settings: CommitWatchSettings, private readonly record: TaskRecord,
    private readonly onClose: () => void,
  ) {
    this.timer = setTimeout(() => { this.close() }, EXPECTED_MS).unref()
    void this.open().catch(() => undefined)
  }

  close(): void {
    if (this.closed) return
    this.closed = true
    clearTimeout(this.timer)
    this.unwatch?.()
    this.onClose()
  }

  private async open(): Promise<void> {
    const { ledger: { store } } = this.settings
    const unwatch = await store.watch(taskKey(this.record.id), () => {
      void this.check().catch(() => undefined)
    })
    if (this.closed) return unwatch()
    this.unwatch = unwatch
    // The transaction may have committed before the watch was active.
    await this.check()
  }

  private async check(): Promise<void> {
    const { ledger } = this.settings
    const found = await ledger.load(this.record.id)
    // Not committed yet, or enqueued by the call before.
    if (this.closed || found?.record.job !== this.record.job) return
    this.close()
    await enqueueCommitted(this.settings, found)
  }
}
