import type { FileShare, StoredTask, TaskStatus } from '../../engine/task.js'
import { fileKey } from '../record/files.js'
import { blobBytes } from '../../stores/many-blobs.js'
import type { Details } from '../record/details.js'
import type { TaskCore } from './task-core.js'

/** Returns whether a task has anything outside of the engine. */
export function hasOutside({ external, blobs, fileRuns }: Details): boolean {
  return external !== undefined || blobs !== undefined || fileRuns !== undefined
}

/**
 * Returns what a task keeps outside of the engine once it has this status: its files, and what its
 * `external` says. It counts for its caller. `undefined` if there is nothing to count. Never rejects:
 * what cannot be counted now does not count.
 */
export async function outsideFiles(
  core: TaskCore, task: StoredTask, { external, files, blobs: kept = [] }: Details, status: TaskStatus,
): Promise<FileShare | undefined> {
  const { blobs, maxFileBytesPerOwner: max } = core.settings
  const { id, name, attempt } = task
  const count = external === undefined ? undefined : core.definition(name)?.external?.bytes
  if (count === undefined && kept.length === 0) return undefined
  try {
    const outside = await count?.(external as string, { id, attempt, status }) ?? 0
    const sizes = status === 'completed' || !blobs
      ? files?.map(({ size }) => size) ?? []
      : await blobBytes(blobs, kept.map((blob) => fileKey(id, blob)))
    const bytes = sizes.reduce((total, size) => total + size, outside)
    // `bytes` of `external` may return anything.
    return Number.isSafeInteger(bytes) && bytes >= 0 ? { bytes, max } : undefined
  } catch {
    return undefined
  }
}
