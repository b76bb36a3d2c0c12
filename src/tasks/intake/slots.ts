import { createHash } from 'node:crypto'
import { httpError } from '../../http/errors.js'
import type { Store } from '../../stores/store.js'
import { toSnapshot } from '../record/codec.js'
import { elapsed } from '../record/elapsed.js'
import { taskKey } from '../record/ledger.js'
import { isFinal } from '../record/state.js'

/**
 * How long a slot without a record is left alone, from when somebody first wanted it, in
 * milliseconds. Between a slot and its record lies one write, so the task of a young slot may be
 * yet to come.
 */
const YOUNG_MS = 10_000

/**
 * Bounds the unfinished tasks of one party (see `countedAs`): each takes one of `max` numbered
 * keys, which names it. A counter would drift when a process dies; a key whose task has ended is
 * simply taken over. Resolves to the key. Throws `too_many_tasks` when all are held.
 */
export async function takeSlot(
  store: Store, definition: { readonly name: string; readonly maxPerOwner: number }, counted: string, taskId: string, ttlMs: number,
): Promise<string> {
  const whose = createHash('sha256').update(counted).digest('base64url')
  for (let n = 0; n < definition.maxPerOwner; n++) {
    const key = `slot:${definition.name}:${String(n)}:${whose}`
    const made = await store.create(key, taskId, { ttlMs })
    if (made.created) return key
    const { value: holderId, revision } = made.entry
    if (holderId === taskId) return key
    const holder = await store.get(taskKey(holderId))
    if (holder && !isFinal(toSnapshot(holderId, holder.value).state)) continue
    if (!holder && await elapsed(store, `${key}:${revision}`, YOUNG_MS) < YOUNG_MS) continue
    const taken = await store.replace(key, taskId, revision, { ttlMs })
    if (taken.replaced) return key
  }
  throw httpError('too_many_tasks', { headers: { 'retry-after': '5' } })
}

/** Gives a slot back, unless another task holds it by now. */
export async function freeSlot(store: Store, key: string, taskId: string): Promise<void> {
  const entry = await store.get(key)
  if (entry?.value === taskId) await store.delete(key, entry.revision)
}
