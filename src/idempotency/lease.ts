import type { Revision, Store } from '../stores/store.js'
import { toHeld, type AnswerClaim, type HeldClaim, type StoredAnswer } from './claim.js'

/** Time after which the claim of a dead process expires, in milliseconds. */
export const LEASE_MS = 30_000
/** Time for which the write of an answer is retried while the store fails, in milliseconds. */
const PATIENCE_MS = 300_000

/**
 * Holds a claim while its work runs, and stores the answer. A timer of this process renews the
 * claim and the store expires it, so a wrong wall clock cannot end it.
 */
export class Lease {
  private claim: AnswerClaim
  private revision: Revision
  private writing: Promise<void> = Promise.resolve()
  private settledAt: number | undefined
  private ttlMs = LEASE_MS
  private owner: string | undefined
  private readonly timer = setInterval(() => { this.write() }, LEASE_MS / 3).unref()

  constructor(
    private readonly store: Store, private readonly key: string,
    { claim, revision }: HeldClaim,
  ) {
    this.claim = claim
    this.revision = revision
  }

  /** Releases the claim after work without an effect, so that a retry does the work. */
  async release(): Promise<void> {
    clearInterval(this.timer)
    await this.writing
    // If the store fails, the claim expires soon.
    await Promise.resolve(this.store.delete(this.key, this.revision)).catch(() => undefined)
  }

  /**
   * Stores the answer. Resolves after the first attempt, so that the client does not wait for a
   * store that fails. Further attempts follow for five minutes.
   */
  async settle(
    answer: StoredAnswer,
    { retentionMs, owner }: { readonly retentionMs: number, readonly owner: string },
  ): Promise<void> {
    await this.writing
    this.claim = { ...this.claim, answer }
    this.ttlMs = retentionMs
    this.owner = owner
    this.settledAt = performance.now()
    this.write()
    await this.writing
  }

  private write(): void {
    this.writing = this.writing.then(() => this.put()).then(
      () => { if (this.settledAt !== undefined) clearInterval(this.timer) },
      () => { if (this.hasGivenUp()) clearInterval(this.timer) },
    )
  }

  private hasGivenUp(): boolean {
    return performance.now() - (this.settledAt ?? Infinity) > PATIENCE_MS
  }

  private async put(): Promise<void> {
    const { store, key, claim } = this
    const value = JSON.stringify(claim)
    const how = { ttlMs: this.ttlMs, ...claim.answer && { evictable: true, owner: this.owner } }
    const outcome = await store.replace(key, value, this.revision, how)
    if (outcome.replaced) this.revision = outcome.revision
    else if (!outcome.entry) await this.create(value, how)
    // An earlier write of this lease succeeded, but its reply was lost.
    else if (this.isOwn(toHeld(outcome.entry))) await this.retry(value, outcome.entry.revision, how)
  }

  /** Creates the claim again if it has expired because the store was away longer than the lease. */
  private async create(value: string, how: { readonly ttlMs: number }): Promise<void> {
    const made = await this.store.create(this.key, value, how)
    if (made.created) this.revision = made.revision
  }

  private async retry(
    value: string, revision: Revision, how: { readonly ttlMs: number },
  ): Promise<void> {
    const outcome = await this.store.replace(this.key, value, revision, how)
    if (outcome.replaced) this.revision = outcome.revision
  }

  private isOwn({ claim }: HeldClaim): boolean {
    return claim.holder === this.claim.holder
  }
}
