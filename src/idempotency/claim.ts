import { httpError, type HttpError } from '../http/errors.js'
import type { ResponseHeaders } from '../http/exchange.js'
import type { Entry, Revision, Store, WriteOptions } from '../stores/store.js'

/** The claim of a key. Without `response` the work runs, and the claim is a lease. */
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

export function claimOf(entry: Entry): KeyClaim {
  return JSON.parse(entry.value) as KeyClaim
}

export function stillRunning(): HttpError {
  return httpError('idempotent_request_running', { headers: { 'retry-after': '1' } })
}

/** Time after which the claim of a dead process expires, in milliseconds. */
export const LEASE_MS = 30_000
/** Time for which the write of a response is retried while the store fails, in milliseconds. */
const PATIENCE_MS = 300_000

/** Renews a claim while its work runs, and stores the response. */
export class Lease {
  private writing: Promise<void> = Promise.resolve()
  private settledAt = Infinity
  private options: WriteOptions = { ttlMs: LEASE_MS }
  private readonly timer = setInterval(() => { void this.write() }, LEASE_MS / 3).unref()

  constructor(
    private readonly store: Store, private readonly key: string,
    private claim: KeyClaim, private revision: Revision,
  ) {}

  /** Releases the claim, so that a retry does the work. */
  async release(): Promise<void> {
    clearInterval(this.timer)
    await this.writing
    // If the store fails, the claim expires soon.
    await Promise.resolve(this.store.delete(this.key, this.revision)).catch(() => undefined)
  }

  /** Resolves after the first attempt to store it; further ones follow for five minutes. */
  async settle(
    response: StoredResponse,
    { retentionMs, owner }: { readonly retentionMs: number, readonly owner: string },
  ): Promise<void> {
    await this.writing
    this.claim = { ...this.claim, response }
    this.options = { ttlMs: retentionMs, evictable: true, owner }
    this.settledAt = performance.now()
    await this.write()
  }

  private write(): Promise<void> {
    this.writing = this.writing.then(() => this.put()).then(
      () => { if (this.settledAt < Infinity) clearInterval(this.timer) },
      () => { if (performance.now() - this.settledAt > PATIENCE_MS) clearInterval(this.timer) },
    )
    return this.writing
  }

  private async put(): Promise<void> {
    const { store, key, claim, options } = this
    const value = JSON.stringify(claim)
    for (;;) {
      const outcome = await store.replace(key, value, this.revision, options)
      if (!outcome.replaced && outcome.entry) {
        if (claimOf(outcome.entry).holder !== claim.holder) return
        // An earlier write was made, but its reply was lost.
        this.revision = outcome.entry.revision
        continue
      }
      // The claim has expired if the store was away longer than the lease.
      const written = outcome.replaced ? outcome : await store.create(key, value, options)
      if ('revision' in written) this.revision = written.revision
      return
    }
  }
}

/** Interval between two reads of an entry, in milliseconds: the store may lose a notice. */
const REREAD_MS = 1000

/** Waits until `until` accepts an entry or the time is over. Keeps the process alive. */
export async function waitForEntry(
  store: Store, key: string, until: (entry: Entry | undefined) => boolean, timeoutMs: number,
  signal?: AbortSignal,
): Promise<Entry | undefined> {
  const deadline = performance.now() + timeoutMs
  let notices = 0
  let wake = (): void => undefined
  const notice = (): void => {
    notices++
    wake()
  }
  const unwatch = await store.watch(key, notice)
  signal?.addEventListener('abort', notice, { once: true })
  try {
    for (;;) {
      const before = notices
      const entry = await store.get(key)
      const left = deadline - performance.now()
      if (until(entry) || left <= 0 || signal?.aborted === true) return entry
      if (notices > before) continue
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, Math.min(left, REREAD_MS))
        wake = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
  } finally {
    unwatch()
    signal?.removeEventListener('abort', notice)
  }
}
