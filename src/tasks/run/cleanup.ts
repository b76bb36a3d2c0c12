import { settleTaskClaim } from '../../idempotency/once-task.js'
import type { Store } from '../../stores/store.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import { releaseSlot } from '../intake/owner-slots.js'
import { releaseExternal } from '../record/external.js'
import { taskKey } from '../record/ids.js'
import type { TaskRecord } from '../record/record.js'

/** Returns whether a final task needs cleanup: has a claim, a slot, a callback or a resource. */
export function needsCleanup({ claim, slot, callback, keeps }: TaskRecord): boolean {
  return claim !== undefined || slot !== undefined || callback !== undefined || keeps !== undefined
}

/**
 * Cleans up after a final task: enqueues its callback, settles its claim, releases its slot and its
 * external resource. May be called again for the same task. Rejects if the callback could not be
 * enqueued.
 */
export async function cleanUp(
  record: TaskRecord, store: Store, definitions: ReadonlyMap<string, AnyTaskDefinition>,
  dispatch: (record: TaskRecord) => Promise<void>,
): Promise<void> {
  if (record.callback?.state === 'pending') await dispatch(record)
  const { claim, expiresAt, createdAt, finishedAt = createdAt } = record
  if (claim !== undefined) {
    const ended = { taskId: record.id, recordKey: taskKey(record.id), recordMs: expiresAt - finishedAt }
    await settleTaskClaim(store, claim, ended).catch(() => undefined)
  }
  if (record.slot !== undefined) await releaseSlot(store, record.slot, record.id).catch(() => undefined)
  if (record.keeps !== undefined) await releaseExternal(definitions.get(record.name), record.keeps)
}
