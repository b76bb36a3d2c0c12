import type { StoredTask } from '../../engine/task.js'
import type { OwnContext } from '../../runtime/own-context.js'
import type { AnyTaskDefinition } from '../definition/define.js'
import type { EndedTask } from '../definition/external-resource.js'
import type { PartList } from '../../stores/parts.js'
import type { ServedFile, TaskFile } from '../../wire/task.js'

/** The blobs that one run may have. The task names them before they are written. */
export type FileRun = readonly [run: string, slots: number]

/** Maximum number of runs that a task names. Blobs of earlier runs are deleted. */
const MAX_FILE_RUNS = 10

export type RecordFiles = {
  readonly files?: readonly TaskFile[] | undefined
  /** Blobs of `files`, in the same order; before the end, those that a later run may take over. */
  readonly blobs?: readonly string[] | undefined
  /** Runs that may have further blobs, which are not in `blobs`. */
  readonly fileRuns?: readonly FileRun[] | undefined
}

interface FileOwner extends RecordFiles {
  readonly id: string
}

/** Returns the unique name of a run in the keys of its blobs. */
export function fileRunOf({ birth }: Pick<StoredTask, 'birth'>, lease: string): string {
  return `${birth}.${lease}`
}

export function blobName(run: string, slot: number): string {
  return `${run}/${slot}`
}

export function fileKey(taskId: string, blob: string): string {
  return `task-files/${taskId}/${blob}`
}

export function withFileRun(
  runs: readonly FileRun[] | undefined, run: string, slots: number,
): readonly FileRun[] {
  const others = (runs ?? []).filter(([name]) => name !== run)
  return slots === 0 ? others : [...others.slice(1 - MAX_FILE_RUNS), [run, slots]]
}

export function hiddenFileKeys({ id, blobs, fileRuns = [] }: FileOwner): readonly string[] {
  const seen = new Set(blobs)
  return fileRuns.flatMap(([run, slots]) => (
    Array.from({ length: slots }, (_, slot) => blobName(run, slot))
      .filter((blob) => !seen.has(blob)).map((blob) => fileKey(id, blob))
  ))
}

/** Returns the hidden keys of the runs that are not among `fileRuns`. */
export function droppedFileKeys(
  record: FileOwner, fileRuns: readonly FileRun[],
): readonly string[] {
  const named = new Set(fileRuns.map(([run]) => run))
  const dropped = record.fileRuns?.filter(([run]) => !named.has(run))
  return hiddenFileKeys({ ...record, fileRuns: dropped })
}

export function allFileKeys(record: FileOwner): readonly string[] {
  const seen = (record.blobs ?? []).map((blob) => fileKey(record.id, blob))
  return [...seen, ...hiddenFileKeys(record)]
}

export function fileLinks(
  files: readonly TaskFile[], statusPath: string,
): readonly ServedFile[] {
  return files.map(({ name, ...rest }) => (
    { name, url: `${statusPath}/files/${encodeURIComponent(name)}`, ...rest }
  ))
}

/** The external resources of a task. */
interface Resources {
  readonly names: readonly string[]
  /** Absent if the task was not created. */
  readonly task?: StoredTask
}

/** Releases resources, or removes them if their task is gone. Never rejects, because they expire. */
export async function releaseExternal(
  context: OwnContext, definition: AnyTaskDefinition | undefined, { names, task }: Resources,
  isGone = false,
): Promise<void> {
  const { external } = definition ?? {}
  const ended = task && endedTask(task)
  for (const name of names) {
    try {
      await context.run(() => (
        isGone && ended && external?.remove ? external.remove(name, ended) : external?.release(name, ended)
      ))
    } catch {
      // It expires.
    }
  }
}

/** Resolves to `false` if a resource no longer exists. Rejects with what `renew` throws. */
export async function renewExternal(
  context: OwnContext, definition: AnyTaskDefinition | undefined, { names, task }: Resources,
  ttlMs: number,
): Promise<boolean> {
  for (const name of names) {
    const isThere = await context.run(() => (
      definition?.external?.renew?.(name, ttlMs, task && endedTask(task))
    )) !== false
    if (!isThere) return false
  }
  return true
}

/** Returns a task as the functions of its external resource see it. */
function endedTask({ id, attempt, status, details }: StoredTask): EndedTask {
  const { parts } = details as { readonly parts?: PartList }
  return { id, attempt, status, parts }
}
