import { newId } from '../runtime/random-id.js'
import type { Entry, Revision, Store } from '../stores/store.js'
import {
  openClaim, releaseClaim, stillRunning, toHeld, type Claim, type HeldClaim, type TaskClaim,
} from './claim.js'
import { wasNotAccepted } from './refusal.js'
import { waitForEntry } from './wait.js'

/**
 * Time that a claim outlives the record of its task, so that a late retry starts no second task. In
 * milliseconds.
 */
export const CLAIM_MARGIN_MS = 3_600_000
/** Lifetime of a claim until its task is accepted, in milliseconds. */
const PROVISIONAL_MS = 86_400_000
/**
 * Time after which a request that has not accepted its task counts as dead. A retry then accepts
 * the task instead. In milliseconds.
 */
const TAKE_OVER_MS = 500
/** Number of claims that may be made and deleted before a request is refused. */
const TRIES = 10

/** Claim of the task of one key. */
export interface TaskClaimOptions {
  /** Store key of the claim; see `claimKey`. */
  readonly key: string
  readonly fingerprint: string
  /** True if the request asks for a direct answer. */
  readonly direct: boolean
  /** Maximum time that the claim is kept once the task is accepted, in milliseconds. */
  readonly keptMs: number
  /** Returns the store key of the task's record. The claim is never evicted before it. */
  readonly recordKey: (taskId: string) => string
}

/** The claim of a key, and the result of accepting the task if this request accepted it. */
export interface OnceTask<T> {
  readonly claim: Claim
  readonly taken: T | undefined
}

/**
 * Accepts a task at most once for each key. The first request claims the key, and calls `take` with
 * the id of the task. Later requests get the claim. While the first has neither accepted its task
 * nor been refused, they wait shortly. If its process has died, one of them calls `take` with the
 * same id.
 *
 * A claim whose task was refused is deleted. If it is unknown whether the task was accepted, the
 * claim stays for a day.
 *
 * @throws {HttpError} 422 `idempotency_key_reused`, 409 `idempotent_request_running`, and the
 * errors of `take`
 */
export async function onceTask<T>(
  store: Store, options: TaskClaimOptions, take: (taskId: string) => Promise<T>,
): Promise<OnceTask<T>> {
  const { key, fingerprint, direct } = options
  for (let tried = 0; tried < TRIES; tried++) {
    const wanted: TaskClaim = {
      kind: 'task', fingerprint, taskId: newId(), direct, accepted: false,
    }
    const { fresh, held: found } = await openClaim(store, key, wanted, PROVISIONAL_MS)
    if (fresh) return takeIn(store, options, found, take)
    const held = isOpen(found.claim) ? await decided(store, key, found) : found
    if (!held) continue
    const { claim } = held
    if (!isOpen(claim)) return { claim, taken: undefined }
    // A new revision, so that the first request cannot delete the claim if it is merely slow.
    const value = JSON.stringify(claim)
    const touched = await store.replace(key, value, held.revision, { ttlMs: PROVISIONAL_MS })
    if (touched.replaced) return takeIn(store, options, { claim, revision: touched.revision }, take)
  }
  throw stillRunning()
}

function isOpen(claim: Claim): claim is TaskClaim {
  return claim.kind === 'task' && !claim.accepted
}

/**
 * Waits until the maker of a claim has decided on it, or has had the time. Returns `undefined` if
 * the claim was deleted.
 */
async function decided(
  store: Store, key: string, { revision }: HeldClaim,
): Promise<HeldClaim | undefined> {
  const until = (now: Entry | undefined) => now?.revision !== revision
  const options = { timeoutMs: TAKE_OVER_MS, signal: undefined, until }
  const entry = await waitForEntry(store, key, options)
  return entry && toHeld(entry)
}

async function takeIn<T>(
  store: Store, options: TaskClaimOptions, { claim, revision }: HeldClaim<TaskClaim>,
  take: (taskId: string) => Promise<T>,
): Promise<OnceTask<T>> {
  let taken: T
  try {
    taken = await take(claim.taskId)
  } catch (error) {
    if (wasNotAccepted(error)) await releaseClaim(store, options.key, revision)
    throw error
  }
  const accepted: TaskClaim = { ...claim, accepted: true }
  // The task is accepted even if this write fails. A retry, or the end of the task, repeats it.
  await confirm(store, options, accepted, revision).catch(() => undefined)
  return { claim: accepted, taken }
}

async function confirm(
  store: Store, { key, keptMs, recordKey }: TaskClaimOptions, claim: TaskClaim, revision: Revision,
): Promise<void> {
  const value = JSON.stringify(claim)
  const how = { ttlMs: keptMs, evictable: { with: recordKey(claim.taskId) } }
  const outcome = await store.replace(key, value, revision, how)
  if (!outcome.replaced && !outcome.entry) await store.create(key, value, how)
}

/** A final task and its record. */
export interface EndedTask {
  readonly taskId: string
  readonly recordKey: string
  /** Remaining lifetime of the record, in milliseconds. */
  readonly recordMs: number
  /** Party that the claim counts for. Default: none. */
  readonly owner?: string | undefined
}

/**
 * Shortens the life of a claim once its task is final: to that of the record and an hour more. Also
 * marks the task as accepted, because the process that accepted it may have died before it did so.
 */
export async function settleTaskClaim(
  store: Store, key: string, { taskId, recordKey, recordMs, owner }: EndedTask,
): Promise<void> {
  let entry = await store.get(key)
  while (entry) {
    const { claim } = toHeld(entry)
    if (claim.kind !== 'task' || claim.taskId !== taskId) return
    const how = { ttlMs: recordMs + CLAIM_MARGIN_MS, evictable: { with: recordKey }, owner }
    const value = JSON.stringify({ ...claim, accepted: true })
    const outcome = await store.replace(key, value, entry.revision, how)
    if (outcome.replaced) return
    entry = outcome.entry
  }
}
