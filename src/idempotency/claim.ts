import { httpError, type HttpError } from '../http/errors.js'
import type { ResponseHeaders } from '../http/exchange.js'
import type { Entry, Revision, Store } from '../stores/store.js'

/**
 * A claim for the response of a handler. Without `response` the work runs, and the claim is a lease.
 */
export interface KeyClaim {
  readonly fingerprint: string
  /** Id of the request that does the work. */
  readonly holder: string
  readonly response?: StoredResponse
}

export interface StoredResponse {
  readonly status: number
  readonly headers: ResponseHeaders
  readonly body: string
  /** True if the body is bytes, stored as base64. */
  readonly base64?: true
}

export interface HeldClaim {
  readonly claim: KeyClaim
  readonly revision: Revision
}

/** A claim: `fresh` if this request made it, otherwise the one that exists. */
export interface OpenedClaim {
  readonly fresh: boolean
  readonly held: HeldClaim
}

/**
 * Creates a claim, unless one exists.
 *
 * @throws {HttpError} 422 `idempotency_key_reused`: the existing claim belongs to another request.
 */
export async function openClaim(
  store: Store, key: string, claim: KeyClaim, ttlMs: number,
): Promise<OpenedClaim> {
  const made = await store.create(key, JSON.stringify(claim), { ttlMs })
  if (made.created) return { fresh: true, held: { claim, revision: made.revision } }
  const held = toHeld(made.entry)
  if (held.claim.fingerprint !== claim.fingerprint) throw httpError('idempotency_key_reused')
  return { fresh: false, held }
}

/** Decodes a claim from its entry. */
export function toHeld(entry: Entry): HeldClaim {
  return { claim: JSON.parse(entry.value) as KeyClaim, revision: entry.revision }
}

/** Returns the error for a key that is in use by another request that has not ended. */
export function stillRunning(): HttpError {
  return httpError('idempotent_request_running', { headers: { 'retry-after': '1' } })
}

/** Time after which the claim of a dead process expires, in milliseconds. */
export const LEASE_MS = 30_000
/** Time for which the write of a response is retried while the store fails, in milliseconds. */
const PATIENCE_MS = 300_000

/**
 * Holds a claim while its work runs, and stores the response. A timer of this process renews the
 * claim and the store expires it, so a wrong wall clock cannot end it.
 */
export class Lease {
  private claim: KeyClaim
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
   * Stores the response. Resolves after the first attempt, so that the client does not wait for a
   * store that fails. Further attempts follow for five minutes.
   */
  async settle(
    response: StoredResponse,
    { retentionMs, owner }: { readonly retentionMs: number, readonly owner: string },
  ): Promise<void> {
    await this.writing
    this.claim = { ...this.claim, response }
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
    const how = { ttlMs: this.ttlMs, ...claim.response && { evictable: true, owner: this.owner } }
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

/** A notice of the store may be lost, so the entry is read again this often, in milliseconds. */
const REREAD_MS = 1000

/** Limits of a wait. */
export interface WaitOptions {
  readonly timeoutMs: number
  readonly signal: AbortSignal | undefined
  readonly until: (entry: Entry | undefined) => boolean
}

/**
 * Reads an entry until `until` accepts it, the time is over, or the signal aborts. Returns its last
 * state, `undefined` if it does not exist. The timer keeps the process alive, because a request
 * waits for it.
 */
export async function waitForEntry(
  store: Store, key: string, { timeoutMs, signal, until }: WaitOptions,
): Promise<Entry | undefined> {
  const deadline = performance.now() + timeoutMs
  let changed = false
  let wake = (): void => undefined
  const notice = (): void => {
    changed = true
    wake()
  }
  const unwatch = await store.watch(key, notice)
  signal?.addEventListener('abort', notice, { once: true })
  try {
    for (;;) {
      changed = false
      const entry = await store.get(key)
      const left = deadline - performance.now()
      if (until(entry) || left <= 0 || signal?.aborted === true) return entry
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(left, REREAD_MS))
        wake = () => {
          clearTimeout(timer)
          resolve()
        }
        if (changed) wake()
      })
    }
  } finally {
    unwatch()
    signal?.removeEventListener('abort', notice)
  }
}
