import type { Revision, Store } from '../stores/store.js'
import {
  releaseClaim, toHeld, type AnswerClaim, type HeldClaim, type StoredAnswer,
} from './claim.js'

/** A claim whose process has died ends after this, in milliseconds. */
export const LEASE_MS = 30_000
/** How long a store that fails is asked to take the answer, in milliseconds. */
const PATIENCE_MS = 300_000

/**
 * Holds a claim while its work goes on, and writes what came of it. Renewed by a timer of this
 * process, and expired by the store, so no wall clock ends it.
 */
export class Lease {
  private claim: AnswerClaim
  private revision: Revision
  private writing: Promise<void> = Promise.resolve()
  private settledAt: number | undefined
  private ttlMs = LEASE_MS
  private readonly timer = setInterval(() => { this.write() }, LEASE_MS / 3).unref()

  constructor(private readonly store: Store, private readonly key: string, { claim, revision }: HeldClaim<AnswerClaim>) {
    this.claim = claim
    this.revision = revision
  }

  /** Nothing was done: a retry may do it. */
  async release(): Promise<void> {
    clearInterval(this.timer)
    await this.writing
    await releaseClaim(this.store, this.key, this.revision)
  }

  /**
   * Keeps the answer. Resolves when that was tried once: the client need not wait for a store that
   * fails. It is tried again for five minutes.
   */
  async settle(answer: StoredAnswer, retentionMs: number): Promise<void> {
    await this.writing
    this.claim = { ...this.claim, answer }
    this.ttlMs = retentionMs
    this.settledAt = performance.now()
    this.write()
    await this.writing
  }

  private write(): void {
    this.writing = this.writing.then(() => this.put()).then(
      () => { if (this.settledAt !== undefined) clearInterval(this.timer) },
      () => { if (performance.now() - (this.settledAt ?? Infinity) > PATIENCE_MS) clearInterval(this.timer) },
    )
  }

  private async put(): Promise<void> {
    const { store, key, claim } = this
    const value = JSON.stringify(claim)
    const how = { ttlMs: this.ttlMs, ...claim.answer && { evictable: true } }
    const outcome = await store.replace(key, value, this.revision, how)
    if (outcome.replaced) this.revision = outcome.revision
    else if (!outcome.entry) await this.create(value, how)
    // A write of this lease whose answer was lost.
    else if (this.isOwn(toHeld(outcome.entry))) await this.again(value, outcome.entry.revision, how)
  }

  /** The claim has expired, because the store was away for longer than the lease. */
  private async create(value: string, how: { readonly ttlMs: number }): Promise<void> {
    const made = await this.store.create(this.key, value, how)
    if (made.created) this.revision = made.revision
  }

  private async again(value: string, revision: Revision, how: { readonly ttlMs: number }): Promise<void> {
    const outcome = await this.store.replace(this.key, value, revision, how)
    if (outcome.replaced) this.revision = outcome.revision
  }

  private isOwn({ claim }: HeldClaim): boolean {
    return claim.kind === 'answer' && claim.holder === this.claim.holder
  }
}
