/**
 * Where things lie that are too large for a record: the report of a bulk, a spooled upload. Written
 * once, read in ranges, gone when they expire.
 *
 * An expected outcome is a return value; a rejected promise is a `StoreUnavailableError`.
 */
export interface Blobs {
  /** Whether other processes see what this one writes. A queue that spans processes refuses blobs that are not. */
  readonly shared: boolean
  /**
   * Writes all of `content` under `key`, replacing what was there once it is complete: readers see the
   * whole old or the whole new blob. When `content` fails or `signal` aborts, nothing is kept. Rejects with the content's own error, or
   * with a `StoreUnavailableError` (`full` when there is no room).
   */
  put(key: string, content: AsyncIterable<Uint8Array>, options: { readonly expiresAt: number; readonly signal?: AbortSignal }): Promise<BlobInfo>
  /** What is known of a blob, or `undefined` when there is none or it has expired. */
  stat(key: string): Promise<BlobInfo | undefined>
  /**
   * The bytes from `start` up to, not including, `end` (default: all), with backpressure; `undefined`
   * when there is no such blob. A reader that has begun gets the blob whole, even when it is replaced or deleted meanwhile.
   */
  open(key: string, range?: { readonly start: number; readonly end: number }): Promise<AsyncIterable<Uint8Array> | undefined>
  /** `true` when something was removed. */
  delete(key: string): Promise<boolean>
  /** Lets go of timers and handles; a folder keeps its files. */
  close(): Promise<void>
}

export interface BlobInfo {
  /** Bytes. */
  readonly size: number
  /** A strong entity tag, in quotes: another one for other bytes. */
  readonly etag: string
  /** Milliseconds since 1970. */
  readonly expiresAt: number
}
