import { httpError, type HttpError } from '../http/errors.js'
import type { ResponseHeaders } from '../http/exchange.js'
import type { Entry, Revision, Store } from '../stores/store.js'

/** What an Idempotency-Key stands for, as it is stored. */
export type Claim = TaskClaim | AnswerClaim

/** A task. The id is chosen with the claim, so any retry means the same task. */
export interface TaskClaim {
  readonly kind: 'task'
  readonly fingerprint: string
  readonly taskId: string
  /** Whether the first request asked for a direct answer. Retries get the same kind. */
  readonly direct: boolean
  /** The task is on record and in the queue. */
  readonly accepted: boolean
}

/** The answer of a handler. Without `answer` the work is under way, and the claim is a lease. */
export interface AnswerClaim {
  readonly kind: 'answer'
  readonly fingerprint: string
  /** Names the request that does the work. */
  readonly holder: string
  readonly answer?: StoredAnswer
}

/** An answer as it is kept for retries. */
export interface StoredAnswer {
  readonly status: number
  readonly headers: ResponseHeaders
  readonly body: string
  /** The body is bytes, kept as base64. */
  readonly base64?: true
}

/** A claim with its revision in the store. */
export interface HeldClaim<K extends Claim = Claim> {
  readonly claim: K
  readonly revision: Revision
}

/**
 * Makes a claim, unless there is one.
 *
 * @throws {HttpError} 422 `idempotency_key_reused` when the claim that is there stands for another
 * request
 */
export async function openClaim<K extends Claim>(
  store: Store, key: string, claim: K, ttlMs: number,
): Promise<{ readonly fresh: true; readonly held: HeldClaim<K> } | { readonly fresh: false; readonly held: HeldClaim }> {
  const made = await store.create(key, JSON.stringify(claim), { ttlMs })
  if (made.created) return { fresh: true, held: { claim, revision: made.revision } }
  const held = toHeld(made.entry)
  if (held.claim.fingerprint !== claim.fingerprint) throw httpError('idempotency_key_reused')
  return { fresh: false, held }
}

/** Reads a claim out of its entry. */
export function toHeld(entry: Entry): HeldClaim {
  return { claim: JSON.parse(entry.value) as Claim, revision: entry.revision }
}

/** The failure of a request whose key is in use by another one that has not ended. */
export function stillRunning(): HttpError {
  return httpError('idempotent_request_running', { headers: { 'retry-after': '1' } })
}

/** Deletes a claim that stands for nothing. If the store fails, the claim expires by itself. */
export async function releaseClaim(store: Store, key: string, revision: Revision): Promise<void> {
  try {
    await store.delete(key, revision)
  } catch {
    // Its time to live is short.
  }
}
