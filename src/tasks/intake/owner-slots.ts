import { createHash } from 'node:crypto'
import { httpError } from '../../http/errors.js'
import type { Store } from '../../stores/store.js'
import { toSnapshot } from '../record/codec.js'
import { elapsed } from '../record/elapsed.js'
import { taskKey } from '../record/ids.js'
import { isFinal } from '../record/state.js'

/**
 * Time for which a slot without a record belongs to its task, from the first other request for it,
 * in milliseconds. The slot is written before the record, so the task may be about to be created.
 */
const GRACE_MS = 10_000

/**
 * Acquires one of the `maxPerOwner` slots of one party (see `countedAs`) for an unfinished task. A
 * slot is a numbered key whose value is the id of its task. The slot of a task that has ended can
 * be acquired by another one, so slots stay right when a process dies; a counter would not.
 *
 * @returns the key of the slot.
 * @throws {HttpError} 429 `too_many_tasks`: all slots are taken.
 */
export async function acquireSlot(
  store: Store, definition: { readonly name: string, readonly maxPerOwner: number },
  counted: string, taskId: string, ttlMs: number,
): Promise<string> {
  for (let n = 0; n < definition.maxPerOwner; n++) {
    const key = `slot:${definition.name}:${String(n)}:${digestOf(counted)}`
    const outcome = await store.create(key, taskId, { ttlMs })
    if (outcome.created) return key
    const { value: holderId, revision } = outcome.entry
    if (holderId === taskId) return key
    const holder = await store.get(taskKey(holderId))
    if (holder && !isFinal(toSnapshot(holderId, holder.value).state)) continue
    if (!holder && await elapsed(store, `${key}:${revision}`, GRACE_MS) < GRACE_MS) continue
    const taken = await store.replace(key, taskId, revision, { ttlMs })
    if (taken.replaced) return key
  }
  throw httpError('too_many_tasks', { headers: { 'retry-after': '5' } })
}

/** Returns the key that stands for all slots of one party. */
export function slotsOf(name: string, counted: string): string {
  return `slots:${name}:${digestOf(counted)}`
}

function digestOf(counted: string): string {
  return createHash('sha256').update(counted).digest('base64url')
}

/** Releases a slot, unless another task has acquired it meanwhile. */
export async function releaseSlot(store: Store, key: string, taskId: string): Promise<void> {
  const entry = await store.get(key)
  if (entry?.value === taskId) await store.delete(key, entry.revision)
}
