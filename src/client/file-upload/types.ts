import type { ByteSource } from '../chunks.js'
import type { TaskHandle } from '../task.js'

/** Content to upload. A stream is read once, so it cannot be resumed by another `uploadFile`. */
export type UploadContent = Blob | Uint8Array | ByteSource

/** Progress of an upload. */
export interface FileUploadProgress {
  /** Bytes that the server has stored. */
  readonly sent: number
  /** Size of the content in bytes. `undefined` for a stream that has not ended. */
  readonly total: number | undefined
}

/** Plain JSON that identifies an unfinished upload in another page or process. */
export interface SavedFileUpload {
  /** Absolute URL of the upload. */
  readonly url: string
  /** Size of the content in bytes, if it is known. */
  readonly total?: number
}

/** Options of `uploadFile`. */
export interface FileUploadOptions {
  /** Stops the upload. The bytes that the server has stay until they expire. */
  readonly signal?: AbortSignal
  /** Additional header fields of each request. */
  readonly headers?: Readonly<Record<string, string>>
  /**
   * HTTP method of the first request.
   * @default POST
   */
  readonly method?: string
  /**
   * Media type of the content.
   * @default the type of the `Blob`, or application/octet-stream
   */
  readonly type?: string
  /**
   * Sends `Prefer: respond-async`: the server processes the content as a task.
   * @default false
   */
  readonly background?: boolean
  /** Path of the status resource, as for `submit`. */
  readonly statusPath?: string
  /**
   * Size of the body of one request in bytes. Progress is known after each. The limits of the
   * server apply too.
   * @default 8_388_608 (8 MiB)
   */
  readonly chunkBytes?: number
  /** Continues an upload of the same content. */
  readonly from?: SavedFileUpload
  /** Called when the server has stored more bytes. */
  readonly onProgress?: (progress: FileUploadProgress) => void
}

/** A running upload. It resumes by itself after a broken connection. */
export interface FileUpload<R = unknown> extends FileUploadProgress {
  /** Absolute URL of the upload. `undefined` until the server has created it. */
  readonly url: string | undefined
  /** True between `pause` and `resume`. */
  readonly paused: boolean
  /** Interrupts the upload. The bytes of the interrupted request count as far as they arrived. */
  pause(): void
  /** Continues after `pause`. */
  resume(): void
  /**
   * Ends the upload and deletes its bytes. `result` rejects with the code `upload_cancelled`.
   *
   * @throws {ClientError} The server could not be reached. The bytes expire by themselves.
   */
  cancel(): Promise<void>
  /**
   * Waits for the answer to the whole upload: a handle for the task of a 202, or for the body of
   * another answer.
   *
   * @throws {ClientError} The server refused the upload or its content, or could not be reached.
   */
  task(): Promise<TaskHandle<R>>
  /** Waits for the result of that task, or for the body of the answer. */
  result(): Promise<R>
  /** Returns what `from` needs. Called by `JSON.stringify`. `undefined` without a `url`. */
  toJSON(): SavedFileUpload | undefined
}
