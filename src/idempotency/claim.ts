import { httpError, type HttpError } from '../http/errors.js'
import type { ResponseHeaders } from '../http/exchange.js'
import type { Entry, Revision, Store } from '../stores/store.js'

/**
 * A claim for the response of a handler. Without `answer` the work runs, and the claim is a lease.
 */
export interface AnswerClaim {
  readonly fingerprint: string
  /** Id of the request that does the work. */
  readonly holder: string
  readonly answer?: StoredAnswer
}

/** A response that is kept for retries. */
export interface StoredAnswer {
  readonly status: number
  readonly headers: ResponseHeaders
  readonly body: string
  /** True if the body is bytes, stored as base64. */
  readonly base64?: true
}

/** A claim with its revision in the store. */
export interface HeldClaim {
  readonly claim: AnswerClaim
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
  store: Store, key: string, claim: AnswerClaim, ttlMs: number,
): Promise<OpenedClaim> {
  const made = await store.create(key, JSON.stringify(claim), { ttlMs })
  if (made.created) return { fresh: true, held: { claim, revision: made.revision } }
  const held = toHeld(made.entry)
  if (held.claim.fingerprint !== claim.fingerprint) throw httpError('idempotency_key_reused')
  return { fresh: false, held }
}

/** Decodes a claim from its entry. */
export function toHeld(entry: Entry): HeldClaim {
  return { claim: JSON.parse(entry.value) as AnswerClaim, revision: entry.revision }
}

/** Returns the error for a key that is in use by another request that has not ended. */
export function stillRunning(): HttpError {
  return httpError('idempotent_request_running', { headers: { 'retry-after': '1' } })
}
