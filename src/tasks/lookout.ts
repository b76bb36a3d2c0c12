import type { Unsubscribe } from '../stores/store.js'
import { taskKey, type Ledger } from './ledger.js'
import type { TaskRecord } from './record.js'

/** Runs that end sooner are not followed: to subscribe costs more than all the rest of a short run. */
const SHORT_MS = 20
/** A notice may be lost, so a run looks for its cancel this often; and this often it tries to subscribe where the store is away. */
const LOOK_MS = 5000

/**
 * Looks out for what others write to the record of a run that lasts: a cancel in another process is seen by its write,
 * and so is a later run. Nothing that is missed does harm, because each write of the run is held against the record.
 */
export class Lookout {
  private timer: ReturnType<typeof setTimeout> | undefined
  private unwatch: Unsubscribe | undefined
  private opening = false
  private ended = false

  /** `onSeen` hears of the record whenever somebody has written to it; `undefined` when it is gone. */
  constructor(private readonly ledger: Ledger, private readonly id: string, private readonly onSeen: (now: TaskRecord | undefined) => void) {
    this.again(SHORT_MS)
  }

  end(): void {
    this.ended = true
    clearTimeout(this.timer)
    this.unwatch?.()
  }

  private again(ms: number): void {
    this.timer = setTimeout(() => {
      this.again(LOOK_MS)
      // Looked at once it is watched: what came before that gave no notice.
      this.open().then(this.look, this.look)
    }, ms).unref()
  }

  private async open(): Promise<void> {
    if (this.unwatch || this.opening) return
    this.opening = true
    try {
      const unwatch = await this.ledger.store.watch(taskKey(this.id), this.look)
      if (this.ended) unwatch()
      else this.unwatch = unwatch
    } finally {
      this.opening = false
    }
  }

  private readonly look = (): void => {
    if (this.ended) return
    this.read().catch(() => undefined)
  }

  private async read(): Promise<void> {
    const now = await this.ledger.load(this.id)
    if (!this.ended) this.onSeen(now?.record)
  }
}
