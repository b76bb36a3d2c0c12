import type { Blobs } from '../../stores/blobs.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import { releaseExternal } from './external.js'
import type { Ledger } from './ledger.js'
import type { TaskRecord } from './record.js'

/** Finds what tasks own beside their records. */
export interface BelongingsSettings {
  readonly ledger: Pick<Ledger, 'store'>
  readonly definitions: ReadonlyMap<string, AnyTaskDefinition>
  readonly blobs: Blobs | undefined
}

/**
 * Releases the input of a task that will not run again: an external resource such as a spooled
 * upload, and the entry of an input that is too long for the record. Never rejects.
 */
export async function releaseInput(
  { ledger, definitions }: Pick<BelongingsSettings, 'ledger' | 'definitions'>,
  { name, keeps, largeWork }: Pick<TaskRecord, 'name' | 'keeps' | 'largeWork'>,
): Promise<void> {
  if (keeps !== undefined) await releaseExternal(definitions.get(name), keeps)
  if (largeWork === undefined) return
  try {
    await ledger.store.delete(largeWork)
  } catch {
    // It expires.
  }
}
