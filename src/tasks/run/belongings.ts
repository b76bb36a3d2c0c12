import { allFileKeys } from '../record/files.js'
import type { TaskRecord } from '../record/record.js'
import { releaseInput, type BelongingsSettings } from '../record/release-input.js'
import { checkpointKey } from './checkpoint-entry.js'
import { deleteFiles } from './files/stored-files.js'

/**
 * Releases all that a task owns beside its record, once the record was deleted. Never rejects,
 * because each of these expires by itself.
 *
 * Its idempotency claim stays, so that a late retry with the same key starts no second task.
 */
export async function releaseBelongings(
  settings: BelongingsSettings, record: TaskRecord,
): Promise<void> {
  await releaseInput(settings, record)
  await releaseCheckpoint(settings, record)
  await deleteFiles(settings.blobs, allFileKeys(record))
}

async function releaseCheckpoint(
  { ledger, definitions }: BelongingsSettings, { id, name }: TaskRecord,
): Promise<void> {
  if (definitions.get(name)?.checkpoint === undefined) return
  try {
    await ledger.store.delete(checkpointKey(id))
  } catch {
    // It expires.
  }
}
