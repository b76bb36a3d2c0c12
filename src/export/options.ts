import type { RecordSource } from '../ndjson/download.js'
import type { MaybePromise } from '../runtime/maybe-promise.js'
import type { Schema } from '../schema/schema.js'
import type { TaskOptions, TaskSettings } from '../tasks/definition/define.js'
import type { TaskContext } from '../tasks/definition/run-context.js'
import type { ExportColumn } from './csv-text.js'

/** Format of the files of an export. */
export type ExportFormat = 'ndjson' | 'csv' | 'json'

/** The context of `records` and `total`, a part of the context of `run`. */
export type ExportContext<C = unknown> =
  Pick<TaskContext<C>, 'taskId' | 'attempt' | 'owner' | 'signal' | 'context'>

/** The context of `records`. */
export interface RecordsContext<C = unknown> extends ExportContext<C> {
  /**
   * Returns the number of records that earlier runs of the task have written, and promises that
   * the source begins after them. If it is not called before the first record, `exportTask` reads
   * these records again and skips them. 0 in the first run and without `partRecords`.
   */
  readonly from: () => number
}

/** Result of an export. The files are in the member `files` of the task. */
export interface ExportResult {
  /** A sentence for people. */
  readonly message: string
  /** Number of records. */
  readonly records: number
  /** Number of files. */
  readonly parts: number
}

/**
 * Options of `exportTask`, beside those of `defineTask` that it takes.
 *
 * - `I`: the input of `records`, which is the output of the schema
 * - `T`: a record
 * - `C`: the context that `records` needs
 * - `In`: the input of the schema, which is what clients submit
 */
export interface ExportTaskOptions<
  I, T extends object, C = unknown, In = I, N extends string = string,
> extends Omit<TaskSettings, 'files' | 'attempts'>,
  Pick<TaskOptions<I, ExportResult, C, In, unknown, N>, 'name' | 'input' | 'check' | 'external'> {
  /**
   * Opens the source of the records. It is read only as fast as the files are written. With
   * `partRecords`, a run that continues an earlier one needs the same records in the same order.
   */
  readonly records: (input: I, context: RecordsContext<C>) => MaybePromise<RecordSource<T>>
  /**
   * Maximum number of runs. A run that fails, for example because the source is unavailable, is
   * followed by another one after a pause (`backoff`). By default these pauses add up to 31 to 63
   * seconds. An error marked by `permanent()`, and an `HttpError` below 500 (except 408, 425 and
   * 429), end the attempts.
   *
   * @default 7
   */
  readonly attempts?: number
  /** Returns the number of records, for progress, if it is known. Default: not known. */
  readonly total?: (input: I, context: ExportContext<C>) => MaybePromise<number | undefined>
  /** Format of the files. `json` is one array in each file. @default 'ndjson' */
  readonly format?: ExportFormat
  /**
   * Name of the files, without number and extension; or a function that returns the name of a part
   * (from 1) without extension. Default: the name of the task.
   */
  readonly fileName?: string | ((part: number) => string)
  /**
   * Maximum number of records of one file. The files are then numbered: `users-0001.ndjson`. A run
   * that follows a failure, a crash or a retry keeps the finished files and continues after them.
   * Default: no limit, and one file without a number.
   */
  readonly partRecords?: number
  /**
   * Schema of a record, for `ndjson` and `json`: a JSON Schema, or a Standard Schema that can return
   * its JSON Schema. A compiled serialiser leaves out members that it does not name. Default:
   * `JSON.stringify`.
   */
  readonly schema?: Schema | Readonly<Record<string, unknown>>
  /** Columns of `csv`, in order. Default: the members of the first record. */
  readonly columns?: readonly (string | ExportColumn)[]
  /**
   * In `csv`, writes `'` before a text that a spreadsheet would execute as a formula: one that
   * begins with `=`, `+`, `-` or `@`, or with a tab or a line break. Numbers stay as they are. Set
   * it to `false` only if no program of a user opens the file.
   *
   * @default true
   */
  readonly escapeFormulas?: boolean
}
