import type { HttpRequest, HttpResponse, RequestHeaders } from '../http/exchange.js'
import { readFailure } from '../http/failure.js'
import { newId } from '../runtime/random-id.js'
import { errorResponse } from '../http/respond.js'
import type { Entry, Store } from '../stores/store.js'
import {
  openClaim, stillRunning, toHeld, type AnswerClaim, type Claim, type TaskClaim,
} from './claim.js'
import { Lease, LEASE_MS } from './lease.js'
import { isRefusal } from './refusal.js'
import { replay, toStored } from './stored-answer.js'
import { waitForEntry } from './wait.js'

/** An answer, and what is kept of it for retries. */
export interface KeptAnswer {
  readonly response: HttpResponse
  /**
   * Body that retries get where the whole one is a stream or too large to be kept, as JSON text.
   * Default: a sentence that says so.
   */
  readonly short?: string
}

/**
 * Does the work of one key. `began` says that it has had an effect: from then on whatever it comes
 * to is kept, even an error that looks like a refusal, such as a 400 after half of the records were
 * written.
 */
export type OnceWork<A> = (began: () => void) => Promise<A>

/** How the work of one key is claimed, and what of its answer is kept. */
export interface OnceAnswerOptions {
  readonly store: Store
  /** Where the claim is stored; see `claimKey`. */
  readonly key: string
  readonly fingerprint: string
  /** How long a retry waits for the answer of the first request, in milliseconds. */
  readonly waitMs: number
  /** How long the answer is kept, in milliseconds. */
  readonly retentionMs: number
  /** A larger body is not kept, in bytes. */
  readonly maxBytes: number
}

/** How often a claim may end without an answer before a retry is refused. */
const TRIES = 10
/**
 * Requests that wait for another one's answer in this process at the most; others are refused at
 * once.
 */
const MAX_WAITING = 1000
/**
 * Bytes of the bodies that they hold, as sent: each may have to do the work after all. Parsed JSON
 * takes up to 25 times as much.
 */
const MAX_WAITING_BYTES = 4 * 1_048_576
/** What a body counts whose length nobody has told. */
const UNKNOWN_BYTES = 1_048_576
let waiting = 0
let waitingBytes = 0

/**
 * Does work at most once for each key, and keeps its answer. A retry gets that answer with
 * `Idempotent-Replayed: true`; it waits for it if the work is still under way. If this process
 * dies, the claim expires within 30 seconds, and a retry does the work again.
 *
 * Answers and errors are kept alike. Only a refusal (`isRefusal`) of work that had no effect
 * releases the key.
 *
 * @returns a `TaskClaim` when the key stands for a task; `undefined` when `work` gives no answer,
 * which releases the key
 * @throws {HttpError} 422 `idempotency_key_reused`, 409 `idempotent_request_running`, and what
 * `work` rejects with
 */
export async function onceAnswer(
  request: HttpRequest<unknown>, options: OnceAnswerOptions, work: OnceWork<KeptAnswer | undefined>,
): Promise<HttpResponse | undefined | TaskClaim> {
  const { store, key, fingerprint } = options
  const deadline = performance.now() + options.waitMs
  for (let tried = 0; tried < TRIES; tried++) {
    const wanted: AnswerClaim = { kind: 'answer', fingerprint, holder: newId() }
    const { fresh, held } = await openClaim(store, key, wanted, LEASE_MS)
    if (fresh) return perform(request, options, new Lease(store, key, held), work)
    const claim = isDecided(held.claim) ? held.claim : await decided(store, key, deadline - performance.now(), request)
    if (claim?.kind === 'task') return claim
    if (claim?.answer) return replay(claim.answer)
    if (claim) break
  }
  throw stillRunning()
}

function isDecided(claim: Claim): boolean {
  return claim.kind === 'task' || claim.answer !== undefined
}

/**
 * The claim once it has an answer, or as it is when the time is over; `undefined` when it is gone.
 */
async function decided(
  store: Store, key: string, timeoutMs: number, { signal, headers }: HttpRequest<unknown>,
): Promise<Claim | undefined> {
  const bytes = bytesOf(headers)
  if (waiting >= MAX_WAITING || (waiting > 0 && waitingBytes + bytes > MAX_WAITING_BYTES)) {
    throw stillRunning()
  }
  waiting++
  waitingBytes += bytes
  try {
    const entry = await waitForEntry(store, key, timeoutMs, signal, (now: Entry | undefined) => !now || isDecided(toHeld(now).claim))
    return entry && toHeld(entry).claim
  } finally {
    waiting--
    waitingBytes -= bytes
  }
}

function bytesOf({ 'content-length': length, 'content-encoding': coding }: RequestHeaders): number {
  const bytes = coding === undefined ? Number(length) : NaN
  return bytes >= 0 ? bytes : UNKNOWN_BYTES
}

async function perform(
  request: HttpRequest<unknown>, { retentionMs, maxBytes }: OnceAnswerOptions, lease: Lease,
  work: OnceWork<KeptAnswer | undefined>,
): Promise<HttpResponse | undefined> {
  let kept: KeptAnswer | undefined
  let hasBegun = false
  try {
    kept = await work(() => { hasBegun = true })
  } catch (error) {
    const { status, headers } = readFailure(error)
    if (!hasBegun && isRefusal(status, headers)) await lease.release()
    else await lease.settle(toStored(errorResponse(error, request), maxBytes), retentionMs)
    throw error
  }
  if (!kept || (!hasBegun && isRefusal(kept.response.status, kept.response.headers))) await lease.release()
  else await lease.settle(toStored(kept.response, maxBytes, kept.short), retentionMs)
  return kept?.response
}
