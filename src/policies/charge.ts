import { after, isPending, type MaybePromise } from '../runtime/maybe-promise.js'
import { httpError } from '../http/errors.js'
import type { HttpRequest } from '../http/exchange.js'
import type { Store } from '../stores/store.js'

/** One limit, the same for all requests. */
export interface Limit<C = unknown> {
  readonly name: string
  readonly limit: number
  readonly windowMs: number
  /** Cost of a request; absent: 1. */
  readonly cost: ((request: HttpRequest<C>) => number) | undefined
  /** Key of a request's counter; `undefined` if the request is not limited. */
  readonly keyOf: (request: HttpRequest<C>) => string | undefined
}

/** A counter as read. `resetAt` is the end of its window, on `performance.now()`. */
interface Count {
  readonly value: number
  readonly resetAt: number
}

/** The charges of one request against its limits. */
export class Charge<C = never> {
  /** The member of a request's context that holds its charge. */
  static readonly key: unique symbol = Symbol('longhaul.charge')
  /** Name of the limit that refused the request. */
  refusedBy: string | undefined
  readonly #store: Store
  readonly #limits: readonly Limit<C>[]
  /** Keys of the limits that have been charged so far. */
  readonly #keys: (string | undefined)[] = []
  /** Last known counters of the limits. */
  readonly #counts: (Count | undefined)[] = []
  readonly #passes: (error: unknown) => boolean
  /** The charge of a `rateLimit` in front of this one. */
  readonly #outer: Charge | undefined

  /** `passes` returns `true` for failures of the store that let a later charge pass. */
  constructor(
    store: Store,
    limits: readonly Limit<C>[],
    passes: (error: unknown) => boolean,
    outer: Charge | undefined,
  ) {
    this.#store = store
    this.#limits = limits
    this.#passes = passes
    this.#outer = outer
  }

  /** The RateLimit field: rest and seconds of each limit. */
  get field(): string {
    const now = performance.now()
    let text = ''
    for (let at = 0; at < this.#limits.length; at++) {
      const { name, limit } = this.#limits[at] as Limit<C>
      const count = this.#counts[at]
      if (count === undefined) continue
      text += `${text === '' ? '' : ', '}"${name}";r=${Math.max(0, limit - count.value)};t=${seconds(count.resetAt - now)}`
    }
    return text
  }

  /**
   * Charges the cost of the request. Rejects with 429, 413, or the error of the store. Returns
   * `undefined` at once if the store answers at once.
   */
  take(request: HttpRequest<C>): MaybePromise<void> {
    return this.#takeFrom(0, request)
  }

  /** Takes more, of one or of all, here and in front. */
  async more(amount: number, policy: string | undefined): Promise<void> {
    await this.#outer?.more(amount, policy)
    try {
      for (const [at, key] of this.#keys.entries()) {
        if (key !== undefined && (policy === undefined || this.#limits[at]?.name === policy)) {
          await this.#takeOne(at, key, amount)
        }
      }
    } catch (error) {
      if (!this.#passes(error)) throw error
    }
  }

  #takeFrom(first: number, request: HttpRequest<C>): MaybePromise<void> {
    for (let at = first; at < this.#limits.length; at++) {
      const { cost, keyOf } = this.#limits[at] as Limit<C>
      const key = this.#keys[at] = keyOf(request)
      if (key === undefined) continue
      const taking = this.#takeOne(at, key, cost === undefined ? 1 : cost(request))
      if (isPending(taking)) return taking.then(() => this.#takeFrom(at + 1, request))
    }
  }

  #takeOne(at: number, key: string, cost: number): MaybePromise<void> {
    const { name, limit } = this.#limits[at] as Limit<C>
    if (!Number.isSafeInteger(cost) || cost < 0) {
      throw new TypeError(`rateLimit: the cost of ${name} must be a whole number from 0 on`)
    }
    if (cost > limit) {
      throw httpError('body_too_large', {
        message: `This request costs ${cost}, and the limit is ${limit}.`,
      })
    }
    // What would not fit is not charged: a large request that is refused leaves the rest for
    // smaller ones. One that costs 1 needs no look beforehand, because nothing smaller could be
    // served with what is left.
    return cost <= 1 ? this.#charge(at, key, cost) : after(this.#add(at, key, 0), (before) => {
      if (before.value + cost > limit) this.#refuse(name, before)
      return this.#charge(at, key, cost)
    })
  }

  #charge(at: number, key: string, cost: number): MaybePromise<void> {
    const adding = this.#add(at, key, cost)
    return isPending(adding)
      ? adding.then((count) => { this.#check(at, cost, count) })
      : this.#check(at, cost, adding)
  }

  #check(at: number, cost: number, count: Count): void {
    const { name, limit } = this.#limits[at] as Limit<C>
    if (cost > 0 && count.value > limit) this.#refuse(name, count)
  }

  #add(at: number, key: string, by: number): MaybePromise<Count> {
    const { windowMs } = this.#limits[at] as Limit<C>
    const adding = this.#store.increment(key, by, { ttlMs: windowMs })
    return after(
      adding,
      ({ value, resetMs }) => this.#counts[at] = { value, resetAt: performance.now() + resetMs },
    )
  }

  #refuse(name: string, { resetAt }: Count): never {
    this.refusedBy = name
    throw httpError('too_many_requests', {
      headers: { 'retry-after': String(seconds(resetAt - performance.now())) },
    })
  }
}

/** Returns whole seconds, at least 1: with 0 a client would return before the window ends. */
function seconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1000))
}
