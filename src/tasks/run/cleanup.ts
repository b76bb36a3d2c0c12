import { settleTaskClaim } from '../../idempotency/once-task.js'
import { releaseSlot } from '../intake/owner-slots.js'
import { releaseExternal } from '../record/external.js'
import { hiddenFileKeys } from '../record/files.js'
import { taskKey } from '../record/ids.js'
import type { TaskRecord } from '../record/record.js'
import type { ExecutorSettings } from './executor-settings.js'
import { deleteFiles } from './files/delete-files.js'

type CleanupSettings = Pick<ExecutorSettings, 'ledger' | 'definitions' | 'blobs'>

/**
 * Returns whether a final task needs cleanup: has a claim, a slot, a callback, a resource, or blobs
 * that are no files of its result.
 */
export function needsCleanup(
  { claim, slot, callback, keeps, fileRuns = [] }: TaskRecord,
): boolean {
  return claim !== undefined || slot !== undefined || callback !== undefined || keeps !== undefined
    || fileRuns.length > 0
}

/**
 * Cleans up after a final task: enqueues its callback, settles its claim, releases its slot and its
 * external resource, and deletes blobs that are no files of its result. May be called again for the same task. Rejects if the callback could not be
 * enqueued.
 */
export async function cleanUp(
  record: TaskRecord, { ledger: { store }, definitions, blobs }: CleanupSettings,
  dispatch: (record: TaskRecord) => Promise<void>,
): Promise<void> {
  if (record.callback?.state === 'pending') await dispatch(record)
  const { claim, expiresAt, createdAt, finishedAt = createdAt } = record
  if (claim !== undefined) {
    const ended = { taskId: record.id, recordKey: taskKey(record.id), recordMs: expiresAt - finishedAt }
    await settleTaskClaim(store, claim, ended).catch(() => undefined)
  }
  if (record.slot !== undefined) await releaseSlot(store, record.slot, record.id).catch(() => undefined)
  await deleteFiles(blobs, hiddenFileKeys(record))
  if (record.keeps !== undefined) await releaseExternal(definitions.get(record.name), record.keeps)
}
