import { setImmediate } from '../../src/runtime/timers.js'

/**
 * Sends the calls of one turn of the event loop together. If the server rejects the values of a
 * call with a `TypeError`, nothing has changed and the call is unknown. Each call is then sent
 * alone.
 */
export class TurnBatches<T, R extends { readonly id: string }> {
  private items = new Map<string, T>()
  private readonly keys = new Set<string>()
  private weight = 0
  private sent: Promise<ReadonlyMap<string, R>> | undefined
  private onSend = (_sent: Promise<ReadonlyMap<string, R>>): void => undefined

  /** @param maxWeight - maximum weight of a batch; a heavier call is a batch of its own */
  constructor(
    private readonly maxWeight: number,
    private readonly send: (items: readonly T[]) => Promise<readonly R[]>,
  ) {}

  /** Resolves to the row with the id. Different items with one id or key go into different batches. */
  async add(
    id: string, item: T, weight = 1, keys: readonly (string | undefined)[] = [],
  ): Promise<R | undefined> {
    const isTaken = this.items.has(id) ? this.items.get(id) !== item
      : keys.some((key) => key !== undefined && this.keys.has(key))
    if (isTaken || this.weight + weight > this.maxWeight) this.flush()
    const { items } = this
    if (items.size === 0) {
      this.sent = new Promise((resolve) => { this.onSend = resolve })
      setImmediate(() => { if (this.items === items) this.flush() })
    }
    items.set(id, item)
    for (const key of keys) if (key !== undefined) this.keys.add(key)
    this.weight += weight
    try {
      return (await this.sent)?.get(id)
    } catch (error) {
      if (items.size === 1 || !(error instanceof TypeError)) throw error
      return (await this.send([item])).find((row) => row.id === id)
    }
  }

  private flush(): void {
    const { items, onSend } = this
    if (items.size === 0) return
    this.items = new Map()
    this.keys.clear()
    this.weight = 0
    onSend(this.sendAll([...items.values()]))
  }

  private async sendAll(items: readonly T[]): Promise<ReadonlyMap<string, R>> {
    return new Map((await this.send(items)).map((row) => [row.id, row]))
  }
}
