import { after, isPending } from '../http/around.js'
import { httpError } from '../http/errors.js'
import type { MaybePromise } from '../http/exchange.js'
import type { Store } from '../stores/store.js'

/** One limit as it applies to one request. */
export interface Limit {
  readonly name: string
  readonly limit: number
  readonly windowMs: number
  readonly cost: number
  readonly key: string
}

/** What a limit had to say last. */
interface Count {
  readonly used: number
  readonly endsAt: number
}

/** What one request takes from its limits. */
export class Charge {
  /** Where a request's context holds it. */
  static readonly key: unique symbol = Symbol('longhaul.charge')
  /** The policy that refused. */
  refusedBy: string | undefined
  readonly #store: Store
  readonly #limits: readonly Limit[]
  readonly #counts = new Map<string, Count>()

  readonly #passes: (error: unknown) => boolean
  /** That of a `rateLimit` in front of this one. */
  readonly #outer: Charge | undefined

  /** `passes`: which failures of the store let a later charge through. */
  constructor(store: Store, limits: readonly Limit[], passes: (error: unknown) => boolean, outer: Charge | undefined) {
    this.#store = store
    this.#limits = limits
    this.#passes = passes
    this.#outer = outer
  }

  /** The RateLimit field: what is left of each, and for how long. */
  get field(): string {
    const now = Date.now()
    return this.#limits.flatMap(({ name, limit }) => {
      const count = this.#counts.get(name)
      return count === undefined ? [] : `"${name}";r=${Math.max(0, limit - count.used)};t=${seconds(count.endsAt - now)}`
    }).join(', ')
  }

  /** Takes what the request costs. Fails with 429 or 413, or with what the store fails with: at once where the store answers so. */
  take(): MaybePromise<void> {
    return this.#takeFrom(0)
  }

  /** Takes more, of one or of all, here and in front. */
  async more(amount: number, policy: string | undefined): Promise<void> {
    await this.#outer?.more(amount, policy)
    try {
      for (const limit of this.#limits) if (policy === undefined || limit.name === policy) await this.#takeOne(limit, amount)
    } catch (error) {
      if (!this.#passes(error)) throw error
    }
  }

  #takeFrom(first: number): MaybePromise<void> {
    for (let at = first; at < this.#limits.length; at++) {
      const limit = this.#limits[at] as Limit
      const taking = this.#takeOne(limit, limit.cost)
      if (isPending(taking)) return taking.then(() => this.#takeFrom(at + 1))
    }
  }

  #takeOne(limit: Limit, cost: number): MaybePromise<void> {
    if (!Number.isSafeInteger(cost) || cost < 0) throw new TypeError(`rateLimit: the cost of ${limit.name} must be a whole number from 0 on`)
    if (cost > limit.limit) {
      throw httpError('body_too_large', { message: `This request costs ${cost}, and the limit is ${limit.limit}.` })
    }
    const charge = (): MaybePromise<void> => after(this.#add(limit, cost), (count) => {
      if (cost > 0 && count.used > limit.limit) this.#refuse(limit, count)
    })
    // What would not fit is not charged: a large request that is refused leaves the rest for smaller ones. One that
    // costs 1 needs no look beforehand, because nothing smaller could be served with what is left.
    return cost <= 1 ? charge() : after(this.#add(limit, 0), (before) => {
      if (before.used + cost > limit.limit) this.#refuse(limit, before)
      return charge()
    })
  }

  #add({ name, key, windowMs }: Limit, by: number): MaybePromise<Count> {
    return after(this.#store.increment(key, by, { expiresAt: Date.now() + windowMs }), ({ value, expiresAt }) => {
      const count = { used: value, endsAt: expiresAt }
      this.#counts.set(name, count)
      return count
    })
  }

  #refuse({ name }: Limit, { endsAt }: Count): never {
    this.refusedBy = name
    throw httpError('too_many_requests', { headers: { 'retry-after': String(seconds(endsAt - Date.now())) } })
  }
}

/** At least one: at zero a client would come back before the window's end. */
function seconds(ms: number): number {
  return Math.max(1, Math.ceil(ms / 1000))
}
