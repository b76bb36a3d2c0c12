import type { HttpRequest, HttpResponse, RequestHeaders } from '../http/exchange.js'
import { readFailure } from '../http/failure.js'
import { SharedLimit } from '../runtime/shared-limit.js'
import { newId } from '../runtime/random-id.js'
import { errorResponse } from '../http/respond.js'
import type { Entry, Store } from '../stores/store.js'
import {
  openClaim, stillRunning, toHeld, type AnswerClaim,
} from './claim.js'
import { Lease, LEASE_MS } from './lease.js'
import { isRefusal } from './refusal.js'
import { replay, toStored } from './stored-answer.js'
import { waitForEntry } from './wait.js'

/** A response, and the part of it that is kept for retries. */
export interface KeptAnswer {
  readonly response: HttpResponse
  /**
   * Body for retries, as JSON text, if the whole body is a stream or too large to keep. Default: a
   * message that says so.
   */
  readonly short?: string
}

/**
 * Does the work of one key. It calls `began` when it has an effect. From then on every outcome is
 * kept, even an error that looks like a refusal, such as a 400 after half of the records were
 * written.
 */
export type OnceWork<A> = (began: () => void) => Promise<A>

/** Claim of the work of one key, and limits for its answer. */
export interface OnceAnswerOptions {
  readonly store: Store
  /** Store key of the claim; see `claimKey`. */
  readonly key: string
  readonly fingerprint: string
  /** Party that the stored answer counts for. */
  readonly owner: string
  /** Time that a retry waits for the answer of the first request, in milliseconds. */
  readonly waitMs: number
  /** Time that the answer is kept, in milliseconds. */
  readonly retentionMs: number
  /** Maximum size of a body that is kept, in bytes. */
  readonly maxBytes: number
}

/** Number of claims that may end without an answer before a retry is refused. */
const TRIES = 10
/** Number of requests that wait for another request in this process. */
const WAITING = new SharedLimit(1000)
/**
 * Size of the bodies of these requests, in bytes as sent; half of it for one caller. They are held in
 * memory, because each request may have to do the work. Parsed JSON takes up to 25 times as much.
 */
const WAITING_BYTES = new SharedLimit(4 * 1_048_576, 2 * 1_048_576)
/** Assumed size of a body of unknown length, in bytes. */
const UNKNOWN_BYTES = 1_048_576

/**
 * Does work at most once for each key, and keeps its answer. A retry gets that answer with
 * `Idempotent-Replayed: true`, and waits for it while the work runs. If this process dies, the
 * claim expires within 30 seconds, and a retry does the work again.
 *
 * Answers and errors are kept alike. Only a refusal (`isRefusal`) of work without an effect
 * releases the key.
 *
 * @returns `undefined` if `work` returns no response, which releases the key
 * @throws {HttpError} 422 `idempotency_key_reused`, 409 `idempotent_request_running`, and the
 * errors of `work`
 */
export async function onceAnswer(
  request: HttpRequest<unknown>, options: OnceAnswerOptions, work: OnceWork<KeptAnswer | undefined>,
): Promise<HttpResponse | undefined> {
  const { store, key, fingerprint } = options
  const deadline = performance.now() + options.waitMs
  for (let tried = 0; tried < TRIES; tried++) {
    const wanted: AnswerClaim = { fingerprint, holder: newId() }
    const { fresh, held } = await openClaim(store, key, wanted, LEASE_MS)
    if (fresh) return perform(request, options, new Lease(store, key, held), work)
    const claim = isDecided(held.claim)
      ? held.claim
      : await decided(options, deadline - performance.now(), request)
    if (claim?.answer) return replay(claim.answer)
    if (claim) break
  }
  throw stillRunning()
}

function isDecided(claim: AnswerClaim): boolean {
  return claim.answer !== undefined
}

/**
 * Waits until the claim has an answer or the time is over. Returns `undefined` if it was deleted.
 */
async function decided(
  { store, key, owner }: OnceAnswerOptions, timeoutMs: number,
  { signal, headers }: HttpRequest<unknown>,
): Promise<AnswerClaim | undefined> {
  const place = WAITING.open(owner)
  const bytes = WAITING_BYTES.open(owner)
  try {
    if (place.tryAcquire(1) ?? bytes.tryAcquire(bytesOf(headers))) throw stillRunning()
    const isOver = (now: Entry | undefined) => !now || isDecided(toHeld(now).claim)
    const entry = await waitForEntry(store, key, { timeoutMs, signal, until: isOver })
    return entry && toHeld(entry).claim
  } finally {
    place.release()
    bytes.release()
  }
}

function bytesOf({ 'content-length': length, 'content-encoding': coding }: RequestHeaders): number {
  const bytes = coding === undefined ? Number(length) : NaN
  return bytes >= 0 ? bytes : UNKNOWN_BYTES
}

async function perform(
  request: HttpRequest<unknown>, { retentionMs, maxBytes, owner }: OnceAnswerOptions, lease: Lease,
  work: OnceWork<KeptAnswer | undefined>,
): Promise<HttpResponse | undefined> {
  let kept: KeptAnswer | undefined
  let hasBegun = false
  try {
    kept = await work(() => { hasBegun = true })
  } catch (error) {
    const { status, headers } = readFailure(error)
    if (!hasBegun && isRefusal(status, headers)) await lease.release()
    else await lease.settle(toStored(errorResponse(error, request), maxBytes), { retentionMs, owner })
    throw error
  }
  if (!kept) {
    await lease.release()
    return undefined
  }
  const { response, short } = kept
  if (!hasBegun && isRefusal(response.status, response.headers)) await lease.release()
  else await lease.settle(toStored(response, maxBytes, short), { retentionMs, owner })
  return response
}
