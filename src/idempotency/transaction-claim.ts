import { httpError } from '../http/errors.js'
import { acquireInTime } from '../stores/acquire.js'
import type { Entry, Store, TransactionStore } from '../stores/store.js'
import { stillRunning, toHeld, type Claim, type TaskClaim } from './claim.js'
import type { TaskClaimOptions } from './once-task.js'

/**
 * Returns the claim of a key that has committed.
 *
 * @throws {HttpError} 422 `idempotency_key_reused`: the claim belongs to another request.
 */
export async function findClaim(
  store: Store, { key, fingerprint }: Pick<TaskClaimOptions, 'key' | 'fingerprint'>,
): Promise<Claim | undefined> {
  const entry = await store.get(key)
  return entry && claimOf(entry, fingerprint)
}

/**
 * Claims a key for a task, in the transaction that accepts the task. Both commit together, so the
 * claim says at once that the task is accepted. If the key has a claim already, returns that one.
 *
 * @throws {HttpError} 422 `idempotency_key_reused`; 409 `idempotent_request_running`: another open
 * transaction claims the key
 */
export async function claimInTransaction(
  store: TransactionStore, options: TaskClaimOptions, taskId: string,
): Promise<Claim | undefined> {
  const { key, fingerprint, direct, keptMs, recordKey } = options
  if (!await acquireInTime(store, key)) throw stillRunning()
  const earlier = await findClaim(store, options)
  if (earlier) return earlier
  const claim: TaskClaim = { kind: 'task', fingerprint, taskId, direct, accepted: true }
  const made = await store.create(key, JSON.stringify(claim), {
    ttlMs: keptMs, evictable: { with: recordKey(taskId) },
  })
  if (made.created) return undefined
  // A request without a transaction has claimed the key meanwhile.
  return claimOf(made.entry, fingerprint)
}

function claimOf(entry: Entry, fingerprint: string): Claim {
  const { claim } = toHeld(entry)
  if (claim.fingerprint !== fingerprint) throw httpError('idempotency_key_reused')
  return claim
}
