import { httpError } from '../http/errors.js'
import type { Store } from '../stores/store.js'
import { toSnapshot } from './codec.js'
import { taskKey } from './ledger.js'
import { isFinal } from './state.js'

/**
 * Bounds the unfinished tasks of one owner: each takes one of `max` numbered keys, which names it. A
 * counter would drift when a process dies; a key whose task has ended is simply taken over.
 * Resolves to the key. Throws `too_many_tasks` when all are held.
 */
export async function takeSlot(
  store: Store, definition: { readonly name: string; readonly maxPerOwner: number }, owner: string, taskId: string, expiresAt: number,
): Promise<string> {
  for (let n = 0; n < definition.maxPerOwner; n++) {
    const key = `slot:${definition.name}:${String(n)}:${encodeURIComponent(owner)}`
    const made = await store.create(key, taskId, { expiresAt })
    if (made.created || made.entry.value === taskId) return key
    const holder = await store.get(taskKey(made.entry.value))
    if (holder && !isFinal(toSnapshot('', holder.value).state)) continue
    // Between a slot and its record lies one write: a slot that young may have an owner yet to come.
    if (!holder && made.entry.expiresAt > expiresAt - 10_000) continue
    const taken = await store.replace(key, taskId, made.entry.revision, { expiresAt })
    if (taken.replaced) return key
  }
  throw httpError('too_many_tasks', { headers: { 'retry-after': '5' } })
}

/** Gives a slot back, unless another task holds it by now. */
export async function freeSlot(store: Store, key: string, taskId: string): Promise<void> {
  const entry = await store.get(key)
  if (entry?.value === taskId) await store.delete(key, entry.revision)
}
