import type { Unsubscribe } from '../../stores/store.js'
import type { Ledger } from '../record/ledger.js'
import { taskKey } from '../record/ids.js'
import type { TaskRecord } from '../record/record.js'

/**
 * A run that ends sooner is not watched, because subscribing costs more than the whole run. In
 * milliseconds.
 */
const SHORT_RUN_MS = 20
/**
 * Time between two reads, and between two attempts to subscribe, in milliseconds. A notice may be
 * lost.
 */
const REREAD_MS = 5000

/**
 * Watches the record of a run for writes of other processes, such as a cancel or a later run. A
 * write that is missed does no harm, because each write of the run is checked against the record.
 */
export class CancelWatch {
  private timer: ReturnType<typeof setTimeout>
  private unwatch: Unsubscribe | undefined
  private subscribing = false
  private closed = false

  /** @param onRead - called with each record that was read; `undefined` when it is gone */
  constructor(
    private readonly ledger: Ledger, private readonly id: string,
    private readonly onRead: (now: TaskRecord | undefined) => void,
  ) {
    this.timer = setTimeout(this.reread, SHORT_RUN_MS).unref()
  }

  close(): void {
    this.closed = true
    clearTimeout(this.timer)
    this.unwatch?.()
  }

  private readonly reread = (): void => {
    this.timer = setTimeout(this.reread, REREAD_MS).unref()
    // Reads after subscribing, because earlier writes gave no notice.
    this.subscribe().then(this.read, this.read)
  }

  private async subscribe(): Promise<void> {
    if (this.unwatch || this.subscribing) return
    this.subscribing = true
    try {
      const unwatch = await this.ledger.store.watch(taskKey(this.id), this.read)
      if (this.closed) unwatch()
      else this.unwatch = unwatch
    } finally {
      this.subscribing = false
    }
  }

  private readonly read = async (): Promise<void> => {
    if (this.closed) return
    try {
      const now = await this.ledger.load(this.id)
      if (!this.closed) this.onRead(now?.record)
    } catch {
      // The store is unavailable. The next read finds the same.
    }
  }
}
