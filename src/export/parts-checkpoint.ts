import { MAX_CHECKPOINT_BYTES } from '../tasks/definition/json-values.js'
import type { TaskContext } from '../tasks/definition/run-context.js'
import { areKeepable, type KeepableFiles } from '../tasks/definition/run-context.js'
import { packParts, unpackParts, type SavedExport } from './saved-export.js'
import type { ExportPosition } from './write-parts.js'

/** The parts of an export, as their names and types follow from its options. */
export interface PartsForm {
  /** Digest of the options that decide what the parts look like. */
  readonly settings: string
  readonly type: string
  /** Returns the file name of a part, from 1. */
  readonly nameOf: (part: number) => string
}

/** Saves the finished parts of an export, and takes over those of an earlier run. */
export class PartsCheckpoint {
  /** Columns of CSV that an earlier run took from the first record. */
  columns: readonly string[] | undefined

  private constructor(
    private readonly files: KeepableFiles, private readonly form: PartsForm,
    private readonly checkpoint: TaskContext<unknown, SavedExport>['checkpoint'],
  ) {}

  /** Returns `undefined` if no run can take over files of this one, as in a test. */
  static of(
    { files, checkpoint }: TaskContext<unknown, SavedExport>, form: PartsForm,
  ): PartsCheckpoint | undefined {
    return areKeepable(files) ? new PartsCheckpoint(files, form, checkpoint) : undefined
  }

  /** Takes over the parts of an earlier run. Returns the position after them. */
  async resume(): Promise<ExportPosition> {
    const { checkpoint: { value: saved }, files, form: { type, nameOf } } = this
    const isKept = saved !== undefined
      && await files.adopt(unpackParts(saved, type, nameOf))
    if (!isKept) return { parts: 0, records: 0 }
    this.columns = saved.columns
    return { parts: saved.parts.length, records: saved.records }
  }

  /**
   * Saves the position after a part. A position that is too large is not saved: a later run then
   * continues from the last one that was.
   *
   * @param columns - columns of CSV that are those of the first record
   */
  async save(records: number, columns?: readonly string[]): Promise<void> {
    const { form: { settings } } = this
    const packed = packParts(await this.files.keep())
    const saved: SavedExport = { settings, records, ...columns && { columns }, ...packed }
    if (Buffer.byteLength(JSON.stringify(saved)) > MAX_CHECKPOINT_BYTES) return
    await this.checkpoint.save(saved)
  }
}
