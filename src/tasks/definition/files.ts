/** Content of a result file, as bytes or text. Pieces of text are written as UTF-8. */
export type FileContent =
  | string | Uint8Array
  | Iterable<Uint8Array | string> | AsyncIterable<Uint8Array | string>

/** Options of `files.write`. */
export interface WriteFileOptions {
  /** Media type, for `Content-Type`, of at most 255 characters. @default 'application/octet-stream' */
  readonly type?: string
}

/** Names of the options of `files.write`. */
export const WRITE_FILE = { type: 0 } satisfies Record<keyof WriteFileOptions, 0>
/** Media type of a file without one. */
export const OCTETS = 'application/octet-stream'

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

/** The member `files` of the context of `run`. */
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
