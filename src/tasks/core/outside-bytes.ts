import type { StoredTask, TaskStatus } from '../../engine/task.js'
import { fileKey } from '../record/files.js'
import { blobBytes } from '../run/files/stored-files.js'
import type { Details } from './details.js'
import type { TaskCore } from './task-core.js'

/**
 * Returns the bytes that a task keeps outside of the engine once it has this status: its files, and
 * what its `keeps` says. They count for its caller. `undefined` if there is nothing to count. Never
 * rejects: what cannot be counted now does not count.
 */
export async function outsideBytes(
  core: TaskCore, task: StoredTask, { keeps, files, blobs: kept = [] }: Details, status: TaskStatus,
): Promise<number | undefined> {
  const { blobs } = core.settings
  const { id, name, attempt } = task
  const count = keeps === undefined ? undefined : core.definition(name)?.keeps?.bytes
  if (count === undefined && kept.length === 0) return undefined
  try {
    const external = await count?.(keeps as string, { id, attempt, status }) ?? 0
    if (status === 'completed') return external + sum(files?.map(({ size }) => size) ?? [])
    return external + (blobs ? sum(await blobBytes(blobs, kept.map((blob) => fileKey(id, blob)))) : 0)
  } catch {
    return undefined
  }
}

function sum(sizes: readonly number[]): number {
  return sizes.reduce((total, size) => total + size, 0)
}
