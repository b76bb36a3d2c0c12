import type { TaskFile, TaskFiles } from './files.js'

/** A complete file of a run, with the name of its blob within the task. */
export interface KeptFile extends TaskFile {
  readonly blob: string
}

/**
 * The files of a run that a later run of the same task can take over. For tasks of longhaul, which
 * save in their checkpoint what `keep` returns.
 */
export interface KeepableFiles extends TaskFiles {
  /**
   * Keeps all complete files of this run, also when it fails. Returns them in the order in which
   * they were begun.
   *
   * @throws {Error} Another run has replaced this one, or the task has ended.
   */
  keep(): Promise<readonly KeptFile[]>
  /**
   * Takes over all files that an earlier run has kept, and renews their blobs. Call it before the
   * first `write`. Returns `false` and takes none if one of them no longer exists.
   */
  adopt(files: readonly KeptFile[]): Promise<boolean>
}

/** Returns whether a later run can take over these files. Those of a test are not kept. */
export function areKeepable(files: TaskFiles): files is KeepableFiles {
  return 'keep' in files && 'adopt' in files
}
