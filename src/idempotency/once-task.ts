import { newId } from '../runtime/random-id.js'
import type { Revision, Store } from '../stores/store.js'
import {
  openClaim, releaseClaim, stillRunning, toHeld, type Claim, type HeldClaim, type TaskClaim,
} from './claim.js'
import { wasNotAccepted } from './refusal.js'
import { waitForEntry } from './wait.js'

/**
 * A claim outlives the record of its task by this much, so that a late retry starts no second task.
 * In milliseconds.
 */
export const CLAIM_MARGIN_MS = 3_600_000
/** How long a claim lives until its task is accepted, in milliseconds. */
const PROVISIONAL_MS = 86_400_000
/**
 * After this, a request whose task is not accepted yet counts as dead, and a retry accepts the task
 * in its place. In milliseconds.
 */
const TAKE_OVER_MS = 500
/** How often a claim may come and go before the request is refused. */
const TRIES = 10

/** What a claim on a task is made of. */
export interface TaskClaimOptions {
  /** Where the claim is stored; see `claimKey`. */
  readonly key: string
  readonly fingerprint: string
  /** Whether the request asks for a direct answer. */
  readonly direct: boolean
  /** How long the claim is kept at most once the task is accepted, in milliseconds. */
  readonly keptMs: number
  /** The store's key of the task's record. The claim is never evicted before it. */
  readonly recordKey: (taskId: string) => string
}

/** What a key stands for, and what accepting the task gave if this request accepted it. */
export interface OnceTask<T> {
  readonly claim: Claim
  readonly taken: T | undefined
}

/**
 * Accepts a task at most once for each key. The first request claims the key, and calls `take` with
 * the id of the task. Later ones get the claim. While the first has neither accepted its task nor
 * been refused, they wait for it shortly. If its process has died, one of them calls `take` with
 * the same id.
 *
 * A claim whose task was refused is deleted. If it is not known whether the task was accepted, the
 * claim stays for a day.
 *
 * @throws {HttpError} 422 `idempotency_key_reused`, 409 `idempotent_request_running`, and what
 * `take` rejects with
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
    // Written anew, so that the first request can't delete it any more, should it be only slow.
    const touched = await store.replace(key, JSON.stringify(claim), held.revision, { ttlMs: PROVISIONAL_MS })
    if (touched.replaced) return takeIn(store, options, { claim, revision: touched.revision }, take)
  }
  throw stillRunning()
}

function isOpen(claim: Claim): claim is TaskClaim {
  return claim.kind === 'task' && !claim.accepted
}

/**
 * The claim once its maker has decided on it, or has had the time to; `undefined` when it is gone.
 */
async function decided(
  store: Store, key: string, { revision }: HeldClaim,
): Promise<HeldClaim | undefined> {
  const entry = await waitForEntry(store, key, TAKE_OVER_MS, undefined, (now) => now?.revision !== revision)
  return entry && toHeld(entry)
}

async function takeIn<T>(
  store: Store, options: TaskClaimOptions, { claim, revision }: HeldClaim<TaskClaim>, take: (taskId: string) => Promise<T>,
): Promise<OnceTask<T>> {
  let taken: T
  try {
    taken = await take(claim.taskId)
  } catch (error) {
    if (wasNotAccepted(error)) await releaseClaim(store, options.key, revision)
    throw error
  }
  const accepted: TaskClaim = { ...claim, accepted: true }
  // The task is accepted, whether this lands or not. A retry, or the end of the task, writes it
  // too.
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

/** A task that is final, and the record that its claim goes with. */
export interface EndedTask {
  readonly taskId: string
  readonly recordKey: string
  /** How long the record is still kept, in milliseconds. */
  readonly recordMs: number
}

/**
 * Shortens the life of a claim once its task is final: to that of the record and an hour more. Says
 * that the task was accepted, too, because the process that accepted it may have died before it
 * could.
 */
export async function settleTaskClaim(
  store: Store, key: string, { taskId, recordKey, recordMs }: EndedTask,
): Promise<void> {
  let entry = await store.get(key)
  while (entry) {
    const { claim } = toHeld(entry)
    if (claim.kind !== 'task' || claim.taskId !== taskId) return
    const how = { ttlMs: recordMs + CLAIM_MARGIN_MS, evictable: { with: recordKey } }
    const outcome = await store.replace(key, JSON.stringify({ ...claim, accepted: true }), entry.revision, how)
    if (outcome.replaced) return
    entry = outcome.entry
  }
}
