import { after } from '../http/after.js'
import { isPending } from '../http/around.js'
import { httpError } from '../http/errors.js'
import type { MaybePromise } from '../http/exchange.js'
import type { Counter, Store } from '../stores/store.js'

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
  /** Of each limit, as far as the store has told. */
  readonly #counts: (Count | undefined)[] = []
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
    let text = ''
    for (let at = 0; at < this.#limits.length; at++) {
      const { name, limit } = this.#limits[at] as Limit
      const count = this.#counts[at]
      if (count === undefined) continue
      text += `${text === '' ? '' : ', '}"${name}";r=${Math.max(0, limit - count.used)};t=${seconds(count.endsAt - now)}`
    }
    return text
  }

  /** Takes what the request costs. Fails with 429 or 413, or with what the store fails with: at once where the store answers so. */
  take(): MaybePromise<void> {
    return this.#takeFrom(0)
  }

  /** Takes more, of one or of all, here and in front. */
  async more(amount: number, policy: string | undefined): Promise<void> {
    await this.#outer?.more(amount, policy)
    try {
      for (const [at, { name }] of this.#limits.entries()) if (policy === undefined || name === policy) await this.#takeOne(at, amount)
    } catch (error) {
      if (!this.#passes(error)) throw error
    }
  }

  #takeFrom(first: number): MaybePromise<void> {
    for (let at = first; at < this.#limits.length; at++) {
      const taking = this.#takeOne(at, (this.#limits[at] as Limit).cost)
      if (isPending(taking)) return taking.then(() => this.#takeFrom(at + 1))
    }
  }

  #takeOne(at: number, cost: number): MaybePromise<void> {
    const limit = this.#limits[at] as Limit
    if (!Number.isSafeInteger(cost) || cost < 0) throw new TypeError(`rateLimit: the cost of ${limit.name} must be a whole number from 0 on`)
    if (cost > limit.limit) {
      throw httpError('body_too_large', { message: `This request costs ${cost}, and the limit is ${limit.limit}.` })
    }
    // What would not fit is not charged: a large request that is refused leaves the rest for smaller ones. One that
    // costs 1 needs no look beforehand, because nothing smaller could be served with what is left.
    return cost <= 1 ? this.#charge(at, cost) : after(this.#add(at, 0), (before) => {
      if (before.used + cost > limit.limit) this.#refuse(limit, before)
      return this.#charge(at, cost)
    })
  }

  #charge(at: number, cost: number): MaybePromise<void> {
    const adding = this.#add(at, cost)
    return isPending(adding) ? adding.then((count) => { this.#check(at, cost, count) }) : this.#check(at, cost, adding)
  }

  #check(at: number, cost: number, count: Count): void {
    const limit = this.#limits[at] as Limit
    if (cost > 0 && count.used > limit.limit) this.#refuse(limit, count)
  }

  #add(at: number, by: number): MaybePromise<Count> {
    const { key, windowMs } = this.#limits[at] as Limit
    const adding: MaybePromise<Counter> = this.#store.increment(key, by, { expiresAt: Date.now() + windowMs })
    return isPending(adding) ? adding.then((counter) => this.#note(at, counter)) : this.#note(at, adding)
  }

  #note(at: number, { value, expiresAt }: Counter): Count {
    return this.#counts[at] = { used: value, endsAt: expiresAt }
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
