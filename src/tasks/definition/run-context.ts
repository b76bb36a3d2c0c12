/**
 * The second argument of `run`. `C` is the type of `context`: a `run` that declares one, as in
 * `run: (input, { context }: TaskContext<{ locale: string }>) => …`, is only submitted with it. `P`
 * is the type of the checkpoint.
 */
export interface TaskContext<C = unknown, P = unknown> {
  /** The task's id. `undefined` while the work runs for a synchronous request. */
  readonly taskId: string | undefined
  /** The number of this run, from 1. More than 1 if an earlier run failed or its process died. */
  readonly attempt: number
  readonly lastAttempt: boolean
  /**
   * Aborts on cancel, time-out and shutdown. For a synchronous request, also when the client disconnects.
   *
   * A task with a `checkpoint` on Redis or PostgreSQL is notified when the shutdown begins: the
   * reason is a `WorkerClosingError`. The run may save and end within the drain time. Another
   * process then continues the task at once, and no attempt is used.
   */
  readonly signal: AbortSignal
  /** The owner of the task, if it has one. */
  readonly owner: string | undefined
  /** The context of the endpoint or of the submitting code, as JSON, if there is one. */
  readonly context: C
  /**
   * Reports how far the work is: `progress(3, 12, 'March is done', 'months')`. Cheap to call often:
   * writes are spaced out, the last report wins, and a failed write never fails the task. `unit` is
   * what is counted; at most 50 characters of it are kept.
   */
  readonly progress: (done: number, total?: number, message?: string, unit?: string) => void
  /** Writes files of the result. The definition needs `files: true`. */
  readonly files: TaskFiles
  /**
   * Value that an earlier run of this task has saved, and the function that saves the next one.
   * Needs the option `checkpoint` of `defineTask`. A synchronous request has no later run: `save` checks
   * the value and keeps nothing.
   */
  readonly checkpoint: Checkpoint<P>
}

/**
 * One JSON value that outlives a run of a task. The next run of the task reads it and continues
 * from there. `P` is the type of the value: the output of the schema `checkpoint` of `defineTask`.
 */
export interface Checkpoint<P = unknown> {
  /** The value that an earlier run saved last, if there is one. It stays the same during a run. */
  readonly value: P | undefined
  /**
   * Saves a value in place of the earlier one. Resolves when the store has it. Calls are written
   * one after the other.
   *
   * If the run has been stopped, stores the value and then rejects with the reason of `signal`.
   * While the store is unavailable, retries for up to 30 seconds.
   *
   * @throws {TypeError} The value is not JSON, is longer than 64 KiB as JSON, or the definition has
   * no `checkpoint`.
   * @throws {HttpError} 409 `attempt_replaced`: another run of the task has begun or the task has
   * ended. Nothing was saved, and the signal of this run aborts.
   * @throws {StoreUnavailableError} The store did not respond in time. The value may be saved.
   */
  save(value: P): Promise<void>
}

/** Content of a result file, as bytes or text. Pieces of text are written as UTF-8. */
export type FileContent =
  | string | Uint8Array
  | Iterable<Uint8Array | string> | AsyncIterable<Uint8Array | string>

/** Options of `files.write`. */
export interface WriteFileOptions {
  /** Media type, for `Content-Type`, of at most 255 characters. @default 'application/octet-stream' */
  readonly type?: string
}

/** A file that a task has written. */
export interface TaskFile {
  readonly name: string
  /** Size in bytes. */
  readonly size: number
  /** Media type. */
  readonly type: string
  /** SHA-256 of the bytes, written as in `Repr-Digest` (RFC 9530): `sha-256=:…:`. */
  readonly digest: string
}

/** The property `files` of the context of `run`. */
export interface TaskFiles {
  /**
   * Writes one file of the result to the blobs of `createTasks`. Reads `content` only as fast as it
   * is written, so the file may be larger than memory. Files may be written concurrently.
   *
   * Clients see the files once the task is completed, in the order of the calls. If the run fails,
   * is cancelled or stops, its files are deleted. `exportTask` keeps finished parts for a later run.
   *
   * A name has 1 to 128 characters: letters, digits, spaces and punctuation of any script, but none
   * of `/ \ : * ? " < > |`. It begins with no dot and no space, and ends with neither.
   *
   * @example
   * defineTask({
   *   name: 'totals',
   *   files: true,
   *   run: async (input, { files }) => {
   *     await files.write('totals.csv', ['month,total\n', '1,100\n'], { type: 'text/csv' })
   *   },
   * })
   *
   * @throws {TypeError} the definition has no `files: true`, the name or the media type is not
   * valid, this run has used the name before, or the run has more than 1000 files
   * @throws {HttpError} 500 `result_files_too_large`: all files of the run have more than
   * `maxFileBytes`; the task is not retried
   * @throws {StoreUnavailableError} the blobs failed, or are full
   */
  readonly write: (
    name: string, content: FileContent, options?: WriteFileOptions,
  ) => Promise<TaskFile>
}

export interface KeptFile extends TaskFile {
  readonly blob: string
}

/** Files that a later run can take over, by what its checkpoint keeps of `keep`. */
export interface KeepableFiles extends TaskFiles {
  /**
   * Keeps all complete files of this run, even when it fails. Returns them in the order in which
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
