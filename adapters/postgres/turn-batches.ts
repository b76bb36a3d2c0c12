import { setImmediate } from '../../src/runtime/timers.js'

/** Gathers the calls of one turn of the event loop, and sends them together at its end. */
export class TurnBatches<T, R> {
  private items: T[] = []
  private weight = 0
  /** No two calls of one batch have the same. */
  private readonly ids = new Set<string>()
  private sent: Promise<R> | undefined
  private onSend = (_outcome: Promise<R>): void => undefined

  /** @param maxWeight - of one batch; a heavier call travels alone */
  constructor(
    private readonly maxWeight: number, private readonly send: (items: readonly T[]) => Promise<R>,
  ) {}

  /** Resolves to the outcome of the batch that the item travels in. */
  add(item: T, weight = 1, ...ids: readonly string[]): Promise<R> {
    if (this.weight + weight > this.maxWeight || ids.some((id) => this.ids.has(id))) this.flush()
    if (this.items.push(item) === 1) {
      const { items } = this
      this.sent = new Promise((resolve) => { this.onSend = resolve })
      setImmediate(() => { if (this.items === items) this.flush() })
    }
    this.weight += weight
    for (const id of ids) this.ids.add(id)
    return this.sent as Promise<R>
  }

  private flush(): void {
    const { items, onSend } = this
    if (items.length === 0) return
    this.items = []
    this.weight = 0
    this.ids.clear()
    onSend(this.send(items))
  }
}
