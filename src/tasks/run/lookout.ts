import type { Unsubscribe } from '../../stores/store.js'
import { afterShort, type Short } from './after-short.js'
import { taskKey, type Ledger } from '../record/ledger.js'
import type { TaskRecord } from '../record/record.js'

/**
 * A notice may be lost, so a run looks for its cancel this often; and this often it tries to
 * subscribe where the store is away.
 */
const LOOK_MS = 5000

/**
 * Looks out for what others write to the record of a run that lasts: a cancel in another process is
 * seen by its write, and so is a later run. Nothing that is missed does harm, because each write of
 * the run is held against the record. A short run is not followed: to subscribe costs more than all
 * the rest of it.
 */
export class Lookout implements Short {
  private timer: ReturnType<typeof setTimeout> | undefined
  private unwatch: Unsubscribe | undefined
  private opening = false
  private onSeen: ((now: TaskRecord | undefined) => void) | undefined

  /**
   * `onSeen` hears of the record whenever somebody has written to it; `undefined` when it is gone.
   */
  constructor(private readonly ledger: Ledger, private readonly id: string, onSeen: (now: TaskRecord | undefined) => void) {
    this.onSeen = onSeen
    afterShort(this)
  }

  get over(): boolean {
    return this.onSeen === undefined
  }

  end(): void {
    // This may stay among the short ones for a moment, and the whole run must not hang on it.
    this.onSeen = undefined
    if (this.timer) clearTimeout(this.timer)
    this.unwatch?.()
  }

  outlast(): void {
    this.timer = setTimeout(() => { this.outlast() }, LOOK_MS).unref()
    // Looked at once it is watched: what came before that gave no notice.
    this.open().then(this.look, this.look)
  }

  private async open(): Promise<void> {
    if (this.unwatch || this.opening) return
    this.opening = true
    try {
      const unwatch = await this.ledger.store.watch(taskKey(this.id), this.look)
      if (this.over) unwatch()
      else this.unwatch = unwatch
    } finally {
      this.opening = false
    }
  }

  private readonly look = (): void => {
    if (this.over) return
    this.read().catch(() => undefined)
  }

  private async read(): Promise<void> {
    const now = await this.ledger.load(this.id)
    this.onSeen?.(now?.record)
  }
}
