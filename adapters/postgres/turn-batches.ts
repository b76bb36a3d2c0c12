import { setImmediate } from '../../src/runtime/timers.js'

interface Batch<C, R> {
  /** The calls add to it. Complete once the turn has ended. */
  readonly content: C
  /** Settles with the statement. */
  readonly sent: Promise<R>
  readonly send: () => void
}

/** Gathers the calls of one turn of the event loop, and sends them together at its end. */
export class TurnBatches<C, R> {
  private batch: Batch<C, R> | undefined

  constructor(
    private readonly create: () => C, private readonly write: (content: C) => Promise<R>,
  ) {}

  /**
   * Returns the batch of this turn.
   *
   * @param isFull - `true` sends the present batch, and begins another one
   */
  open(isFull: (content: C) => boolean): Batch<C, R> {
    if (this.batch && isFull(this.batch.content)) this.batch.send()
    return this.batch ??= this.begin()
  }

  private begin(): Batch<C, R> {
    const content = this.create()
    let resolve!: (sent: Promise<R>) => void
    const sent = new Promise<R>((settle) => { resolve = settle })
    const send = (): void => {
      if (this.batch !== batch) return
      this.batch = undefined
      resolve(this.write(content))
    }
    const batch = { content, sent, send }
    setImmediate(send)
    return batch
  }
}
