import { settleTaskClaim } from '../../idempotency/once-task.js'
import type { Store } from '../../stores/store.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import { releaseKept } from '../record/kept.js'
import { taskKey } from '../record/ledger.js'
import type { TaskRecord } from '../record/record.js'
import { freeSlot } from '../intake/slots.js'

/** Whether there is anything beside the record that its end means something to. */
export function hasTies({ claim, slot, callback, keeps }: TaskRecord): boolean {
  return claim !== undefined || slot !== undefined || callback !== undefined || keeps !== undefined
}

/**
 * Does what the end of a task asks for; may be called again. Rejects when its callback could not be
 * enqueued.
 */
export async function untie(
  record: TaskRecord, store: Store, definitions: ReadonlyMap<string, AnyTaskDefinition>, dispatch: (record: TaskRecord) => Promise<void>,
): Promise<void> {
  if (record.callback?.state === 'pending') await dispatch(record)
  const { claim, expiresAt, createdAt, finishedAt = createdAt } = record
  if (claim !== undefined) {
    const ended = { taskId: record.id, recordKey: taskKey(record.id), recordMs: expiresAt - finishedAt }
    await settleTaskClaim(store, claim, ended).catch(() => undefined)
  }
  if (record.slot !== undefined) await freeSlot(store, record.slot, record.id).catch(() => undefined)
  if (record.keeps !== undefined) await releaseKept(definitions.get(record.name), record.keeps)
}
