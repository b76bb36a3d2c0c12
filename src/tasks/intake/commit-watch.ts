import type { VersionedRecord } from '../record/ledger.js'
import type { TaskRecord } from '../record/record.js'
import { enqueueCommitted, type EnqueueSettings } from './enqueue-committed.js'

/**
 * Time from the write of a record to the first look for it, in milliseconds. It doubles each time.
 */
const FIRST_LOOK_MS = 5
/**
 * Time for which the commit of a task is awaited, in milliseconds: 11 looks. The sweep of a worker
 * finds the task if it commits later.
 */
const EXPECTED_MS = 10_000
/** Maximum number of tasks whose commit is awaited. The sweep finds the others. */
const MAX_EXPECTED = 1000

/** Settings of a `CommitWatch`. */
export interface CommitWatchSettings extends EnqueueSettings {
  /** `true` if this process runs tasks. */
  readonly isWorker: boolean
}

/**
 * Enqueues the tasks that this process has accepted in transactions, as soon as those commit. Looks
 * for each record after 5, 10, 20, … milliseconds. A notice inside the transaction would be sooner,
 * but PostgreSQL commits transactions with a notice one at a time.
 *
 * All failures are ignored, because the sweep of a worker enqueues the task a few seconds later.
 */
export class CommitWatch {
  private readonly expected = new Map<string, ExpectedCommit>()
  private isClosed = false

  constructor(private readonly settings: CommitWatchSettings) {}

  /** Number of tasks whose commit is awaited. */
  get size(): number {
    return this.expected.size
  }

  /** Awaits the commit of a record that was written in a transaction. */
  expect(record: TaskRecord): void {
    this.expected.get(record.id)?.close()
    const { settings: { queue, isWorker } } = this
    // A queue in memory runs the task in this process, so another one has to take it.
    if (this.isClosed || !(queue.durable || isWorker) || this.expected.size >= MAX_EXPECTED) return
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
    // If nothing expects the task any more, it was enqueued already, or a sweep will do so.
    if (found && expected) await enqueueCommitted(this.settings, found).catch(() => undefined)
    return found
  }

  /**
   * Looks for each expected task once more, then stops. The sweeps find those that commit later.
   */
  async close(): Promise<void> {
    this.isClosed = true
    const ids = [...this.expected.keys()]
    await Promise.all(ids.map((id) => this.confirm(id).catch(() => undefined)))
    for (const expected of this.expected.values()) expected.close()
  }
}

/** One task whose transaction may be open. */
class ExpectedCommit {
  private readonly deadline = performance.now() + EXPECTED_MS
  private timer: ReturnType<typeof setTimeout> | undefined
  private isClosed = false

  /** @param onClose - called once, when the commit is no longer awaited */
  constructor(
    private readonly settings: EnqueueSettings, private readonly record: TaskRecord,
    private readonly onClose: () => void,
  ) {
    this.lookIn(FIRST_LOOK_MS)
  }

  close(): void {
    if (this.isClosed) return
    this.isClosed = true
    clearTimeout(this.timer)
    this.onClose()
  }

  private lookIn(ms: number): void {
    if (performance.now() + ms > this.deadline) return this.close()
    this.timer = setTimeout(() => {
      void this.look().catch(() => undefined).then(() => {
        if (!this.isClosed) this.lookIn(ms * 2)
      })
    }, ms).unref()
  }

  private async look(): Promise<void> {
    const { ledger } = this.settings
    const found = await ledger.load(this.record.id)
    if (this.isClosed || found?.record.job !== this.record.job) return
    this.close()
    await enqueueCommitted(this.settings, found)
  }
}
