import { CLAIM_MARGIN_MS, settleTaskClaim } from '../../idempotency/once-task.js'
import { releaseSlot } from '../intake/owner-slots.js'
import { releaseInput, type BelongingsSettings } from '../record/release-input.js'
import { renewExternal } from '../record/external.js'
import { hiddenFileKeys } from '../record/files.js'
import { taskKey } from '../record/ids.js'
import { partyOf } from '../record/owner.js'
import type { TaskRecord } from '../record/record.js'
import { renewLargeWork } from '../record/work.js'
import { deleteFiles } from './files/stored-files.js'

/**
 * Returns whether a final task needs cleanup: has a claim, a slot, a callback, an external resource,
 * a large input, or blobs that are no files of its result.
 */
export function needsCleanup(
  { claim, slot, callback, keeps, largeWork, fileRuns = [] }: TaskRecord,
): boolean {
  return (claim ?? slot ?? callback ?? keeps ?? largeWork) !== undefined || fileRuns.length > 0
}

/**
 * Cleans up after a final task: enqueues its callback, settles its claim, releases its slot, and
 * deletes blobs that are no files of its result. If it is completed, releases its input too;
 * otherwise renews it, because a retry may need it. May be called again for the same task. Rejects
 * if the callback could not be enqueued.
 */
export async function cleanUp(
  record: TaskRecord, settings: BelongingsSettings,
  dispatch: (record: TaskRecord) => Promise<void>,
): Promise<void> {
  const { ledger: { store } } = settings
  if (record.callback?.state === 'pending') await dispatch(record)
  const { claim, slot, expiresAt, createdAt, finishedAt = createdAt } = record
  const recordMs = expiresAt - finishedAt
  const owner = partyOf(record)
  if (claim !== undefined) {
    const ended = { taskId: record.id, recordKey: taskKey(record.id), recordMs, owner }
    await settleTaskClaim(store, claim, ended).catch(() => undefined)
  }
  if (slot !== undefined) await releaseSlot(store, slot, record).catch(() => undefined)
  await deleteFiles(settings.blobs, hiddenFileKeys(record))
  if (record.state === 'completed') return releaseInput(settings, record)
  await renewLargeWork(store, record, { ttlMs: recordMs, owner }).catch(() => undefined)
  const definition = settings.definitions.get(record.name)
  await renewExternal(definition, record.keeps, recordMs + CLAIM_MARGIN_MS).catch(() => undefined)
}
