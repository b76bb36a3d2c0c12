import { createHash } from 'node:crypto'
import { httpError, type ErrorDetail } from '../http/errors.js'
import type { Failure } from '../http/failure.js'
import type { HttpRequest, HttpResponse } from '../http/exchange.js'
import type { Entry, ReplaceOptions, Revision, Store } from '../stores/store.js'
import type { Requester } from './requester.js'

/** A claim outlives what it stands for by this much, so that a late retry never starts a second task. */
export const CLAIM_MARGIN_MS = 3_600_000

/** What a key stands for. */
export type Claim =
  /** A task; `accepted` once it is on record and in the queue. The id is chosen with the claim, so any retry means the same task. */
  | { readonly kind: 'task'; readonly fingerprint: string; readonly taskId: string; readonly accepted: boolean }
  /** A direct answer: `answer` once there is one; until then the claim is a lease. */
  | { readonly kind: 'sync'; readonly fingerprint: string; readonly answer?: SyncAnswer }

/** How direct work ended, kept for retries: the result as JSON text, or the failure. */
export type SyncAnswer = { readonly result: string } | { readonly failure: DirectFailure } | { readonly response: TextResponse }

/** A whole answer of a handler of the host's, or of another room's. */
export interface TextResponse extends HttpResponse {
  body: string
}

/** A failure as a direct answer tells it. */
export type DirectFailure = Pick<Failure, 'status' | 'code' | 'message' | 'headers'> & { readonly details?: readonly ErrorDetail[] }

/** A claim with its place in the store. */
export interface HeldClaim {
  readonly key: string
  readonly claim: Claim
  readonly revision: Revision
}

const QUOTED = /^"((?:[ !#-[\]-~]|\\["\\])*)"$/
const BARE = /^[!#-+\--~]+$/

/**
 * The Idempotency-Key of a request (draft-ietf-httpapi-idempotency-key-header), quoted or bare: 1 to
 * 255 visible characters. `undefined` without the field; throws `invalid_idempotency_key` on anything else.
 */
export function parseIdempotencyKey(field: string | string[] | undefined): string | undefined {
  if (field === undefined) return undefined
  const text = typeof field === 'string' ? field.trim() : ''
  const key = text.length > 600 ? undefined : (QUOTED.exec(text)?.[1]?.replaceAll(/\\(.)/g, '$1') ?? BARE.exec(text)?.[0])
  if (key === undefined || key.length < 1 || key.length > 255) {
    throw httpError('invalid_idempotency_key', { message: 'Idempotency-Key must be one key of 1 to 255 visible characters, in quotes or bare.' })
  }
  return key
}

/** Where the claim of a key lies: one caller's key on one method and path is not another's. */
export function claimKey(request: HttpRequest<unknown>, { owner }: Requester, key: string): string {
  return `idempotency:${digest(JSON.stringify([owner ?? null, request.method, request.path, key]))}`
}

/** Tells one body from another. */
export function fingerprintOf(body: unknown): string {
  return digest(JSON.stringify(body) ?? '')
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}

/** Sets a claim up, or finds the one that is there. Throws `idempotency_key_reused` when it stands for another body. */
export async function openClaim(
  store: Store, key: string, claim: Claim, ttlMs: number,
): Promise<{ readonly fresh: boolean; readonly held: HeldClaim }> {
  const made = await store.create(key, JSON.stringify(claim), { ttlMs })
  if (made.created) return { fresh: true, held: { key, claim, revision: made.revision } }
  const held = toHeld(key, made.entry)
  if (held.claim.fingerprint !== claim.fingerprint) throw httpError('idempotency_key_reused')
  return { fresh: false, held }
}

function toHeld(key: string, entry: Entry): HeldClaim {
  return { key, claim: JSON.parse(entry.value) as Claim, revision: entry.revision }
}

/** Writes what is known by now. Losing to another request is fine: it wrote the same. */
export async function updateClaim(store: Store, held: HeldClaim, claim: Claim, options: ReplaceOptions = {}): Promise<void> {
  await store.replace(held.key, JSON.stringify(claim), held.revision, options)
}

/**
 * Once the task is final, its claim lives as long as the record and a while more. That there was a task is
 * written too, because a process may have died, or been too late, before it could say so.
 */
export async function settleClaim(store: Store, key: string, recordTtlMs: number): Promise<void> {
  let entry = await store.get(key)
  while (entry) {
    const { claim } = toHeld(key, entry)
    const value = JSON.stringify(claim.kind === 'task' ? { ...claim, accepted: true } : claim)
    const outcome = await store.replace(key, value, entry.revision, { ttlMs: recordTtlMs + CLAIM_MARGIN_MS, evictable: true })
    if (outcome.replaced) return
    entry = outcome.entry
  }
}
