/**
 * `too_many_requests`: the work of the same caller uses the part of this caller. `overloaded`: all
 * work uses the limit.
 */
export type Refusal = 'too_many_requests' | 'overloaded'

interface Waiting {
  readonly share: Share
  readonly amount: number
  readonly enter: () => void
}

/**
 * A limit that the work of all callers shares, such as bytes of memory. One caller may use a part
 * of it. The only work of a caller may exceed that part, and the only work of all callers may
 * exceed the limit, so all work runs at some time. Callers that wait take turns.
 */
export class SharedLimit {
  readonly #used = new Map<string, number>()
  #usedByAll = 0
  /** Waiting work by caller. The caller that comes next is first. */
  readonly #waiting = new Map<string, Set<Waiting>>()

  /** @param perCaller - part of one caller. Default: a quarter */
  constructor(private readonly total: number, private readonly perCaller = total / 4) {}

  /** Returns a share of the limit, which is empty at first. */
  open(caller: string): Share {
    return new Share(this, caller)
  }

  /** Returns why a share may not get `more` than it has now. Ignores work that waits. */
  refusal({ caller, amount }: Share, more: number): Refusal | undefined {
    const own = this.#used.get(caller) ?? 0
    if (own > amount && own + more > this.perCaller) return 'too_many_requests'
    if (this.#usedByAll > amount && this.#usedByAll + more > this.total) return 'overloaded'
    return undefined
  }

  add(caller: string, amount: number): void {
    const own = (this.#used.get(caller) ?? 0) + amount
    if (own === 0) this.#used.delete(caller)
    else this.#used.set(caller, own)
    this.#usedByAll += amount
    if (amount < 0) this.#admit()
  }

  enqueue(waiting: Waiting): void {
    const { caller } = waiting.share
    const line = this.#waiting.get(caller)
    if (line) line.add(waiting)
    else this.#waiting.set(caller, new Set([waiting]))
    this.#admit()
  }

  dequeue(waiting: Waiting): void {
    const { caller } = waiting.share
    const line = this.#waiting.get(caller)
    if (line?.delete(waiting) && line.size === 0) this.#waiting.delete(caller)
    this.#admit()
  }

  #admit(): void {
    for (const [caller, line] of this.#waiting) {
      const [first] = line
      if (first === undefined) continue
      const refusal = this.refusal(first.share, first.amount)
      // Nobody overtakes the next one, because small work could keep large work out for ever.
      if (refusal === 'overloaded') return
      if (refusal !== undefined) continue
      line.delete(first)
      // Moves its caller to the end.
      this.#waiting.delete(caller)
      if (line.size > 0) this.#waiting.set(caller, line)
      first.share.add(first.amount)
      first.enter()
    }
  }
}

export class Share {
  #amount = 0

  constructor(private readonly limit: SharedLimit, readonly caller: string) {}

  get amount(): number {
    return this.#amount
  }

  /** Returns why this share may not grow by `more`. Ignores work that waits. */
  refusal(more = 0): Refusal | undefined {
    return this.limit.refusal(this, more)
  }

  /** Adds an amount, even beyond the limit. */
  add(amount: number): void {
    this.#amount += amount
    this.limit.add(this.caller, amount)
  }

  /** Adds an amount if it is available and nobody waits for it. Otherwise returns the reason. */
  tryAcquire(amount: number): Refusal | undefined {
    let entered = false
    const waiting = { share: this, amount, enter: () => { entered = true } }
    this.limit.enqueue(waiting)
    if (entered) return undefined
    const refusal = this.refusal(amount) ?? 'overloaded'
    this.limit.dequeue(waiting)
    return refusal
  }

  /**
   * Acquires an amount, and waits for it. If the signal of the work aborts first, acquires nothing
   * and resolves to `false`.
   */
  acquire(amount: number, work: { readonly signal: AbortSignal }): Promise<boolean> {
    if (this.tryAcquire(amount) === undefined) return Promise.resolve(true)
    const { signal } = work
    if (signal.aborted) return Promise.resolve(false)
    return new Promise((resolve) => {
      const enter = (): void => {
        signal.removeEventListener('abort', giveUp)
        resolve(true)
      }
      const giveUp = (): void => {
        this.limit.dequeue(waiting)
        resolve(false)
      }
      const waiting = { share: this, amount, enter }
      signal.addEventListener('abort', giveUp, { once: true })
      this.limit.enqueue(waiting)
    })
  }

  release(): void {
    if (this.#amount > 0) this.add(-this.#amount)
  }
}

const MIB = 1024 * 1024
/** Memory of a Worker, which does not report its heap limit, in bytes. */
const UNKNOWN_HEAP = 128 * MIB

/** Returns one of `parts` equal shares of the heap limit in bytes, at most `maxMiB`. */
export function heapShare(parts: number, maxMiB: number): number {
  return Math.min(maxMiB * MIB, Math.floor(heapLimit() / parts))
}

/** Does not import `node:v8`, which some runtimes do not have. */
function heapLimit(): number {
  const limit = globalThis.process.getBuiltinModule('node:v8')?.getHeapStatistics().heap_size_limit
  return limit || UNKNOWN_HEAP
}
