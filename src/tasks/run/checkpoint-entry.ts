import type { Store } from '../../stores/store.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import { taskKey } from '../record/ids.js'
import { partyOf } from '../record/owner.js'
import type { TaskRecord } from '../record/record.js'

/** A checkpoint as it is stored: an entry of its own, beside the record of the task. */
export interface CheckpointEntry {
  /** `createdAt` of the task. A later task under the same id has another one. */
  readonly createdAt: number
  /** The run that wrote the entry: the fence that keeps a late run out. */
  readonly attempt: number
  /** `version` of the definition that saved the value. */
  readonly version: string | undefined
  /** The value as JSON text; `undefined` if no run has saved one yet. */
  readonly text: string | undefined
}

/** Returns the key of a task's checkpoint. */
export function checkpointKey(taskId: string): string {
  return `checkpoint:${taskId}`
}

/** Returns how the store keeps the checkpoint of a task: not longer than the task's record. */
export function keptWithTask(
  taskId: string, ttlMs: number,
): { readonly ttlMs: number, readonly evictable: { readonly with: string } } {
  return { ttlMs, evictable: { with: taskKey(taskId) } }
}

/** Encodes an entry: the first line is for longhaul, the second is the value. */
export function encodeCheckpoint({ createdAt, attempt, version, text }: CheckpointEntry): string {
  const head = JSON.stringify([createdAt, attempt, ...version === undefined ? [] : [version]])
  return text === undefined ? head : `${head}\n${text}`
}

/** Decodes an entry. */
export function decodeCheckpoint(value: string): CheckpointEntry {
  const end = value.indexOf('\n')
  const head = end < 0 ? value : value.slice(0, end)
  const [createdAt, attempt, version] = JSON.parse(head) as [number, number, string?]
  return { createdAt, attempt, version, text: end < 0 ? undefined : value.slice(end + 1) }
}

/**
 * Deletes the checkpoint of a completed task. The checkpoint of a failed or cancelled task, which
 * may be retried, gets the lifetime of its record. Never rejects, because the entry expires.
 */
export async function endCheckpoint(
  store: Store, definition: AnyTaskDefinition | undefined, record: TaskRecord,
): Promise<void> {
  const { id, state, attempt, createdAt, expiresAt, finishedAt = createdAt } = record
  if (definition?.checkpoint === undefined || attempt === 0) return
  try {
    if (state === 'completed') {
      await store.delete(checkpointKey(id))
      return
    }
    await renewCheckpoint(store, id, { ttlMs: expiresAt - finishedAt, owner: partyOf(record) })
  } catch {
    // It expires by itself, some days later.
  }
}

/**
 * Changes the lifetime of a checkpoint, unless a run writes it at this moment.
 *
 * @param kept.owner - party that the entry counts for, once the task is final
 */
export async function renewCheckpoint(
  store: Store, taskId: string,
  { ttlMs, owner }: { readonly ttlMs: number, readonly owner?: string | undefined },
): Promise<void> {
  const key = checkpointKey(taskId)
  const entry = await store.get(key)
  if (entry === undefined) return
  await store.replace(key, entry.value, entry.revision, { ...keptWithTask(taskId, ttlMs), owner })
}
