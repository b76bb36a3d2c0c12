import { setImmediate } from '../../src/runtime/timers.js'

/** Calls of one turn of the event loop that are one statement. */
export class TurnBatch<C, R> {
  declare resolve: (sent: Promise<R>) => void
  /** Settles with the statement. */
  readonly sent = new Promise<R>((resolve) => { this.resolve = resolve })

  /** @param content - what the calls add to; complete once the turn has ended */
  constructor(readonly content: C) {}
}

/** Gathers the calls of one turn of the event loop, and sends them together at its end. */
export class TurnBatches<C, R> {
  private batch: TurnBatch<C, R> | undefined

  constructor(
    private readonly create: () => C, private readonly write: (content: C) => Promise<R>,
  ) {}

  /**
   * Returns the batch of this turn.
   *
   * @param isFull - `true` sends the present batch, and begins another one
   */
  open(isFull?: (content: C) => boolean): TurnBatch<C, R> {
    if (this.batch && isFull?.(this.batch.content)) this.send()
    return this.batch ?? this.begin()
  }

  /** Sends the batch of this turn now, if there is one. */
  send(): void {
    const { batch } = this
    if (!batch) return
    this.batch = undefined
    batch.resolve(this.write(batch.content))
  }

  private begin(): TurnBatch<C, R> {
    const batch = this.batch = new TurnBatch<C, R>(this.create())
    setImmediate(() => { if (this.batch === batch) this.send() })
    return batch
  }
}
