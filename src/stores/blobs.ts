/**
 * Where things lie that are too large for a record: the report of a bulk, a spooled upload. Written
 * once, read in ranges, gone when they expire.
 *
 * An expected outcome is a return value. A rejected promise is a `StoreUnavailableError` (the blobs
 * failed, or are closed), the failure of the content that was being written, or a `TypeError` for
 * misuse: a range that is none, a `ttlMs` that is not finite.
 *
 * Keys are any well-formed text of 1 to 512 characters without U+0000, and differ when one code
 * unit differs. A blob is live for `ttlMs` from when it is complete, by the blobs' own clock, and
 * nobody opens it afterwards; one whose `ttlMs` is 0 or less counts as written and expires at once.
 */
export interface Blobs {
  /**
   * Whether other processes see what this one writes. A queue that spans processes refuses blobs
   * that are not.
   */
  readonly shared: boolean
  /**
   * Writes all of `content` under `key`, replacing what was there once it is complete: readers see
   * the whole old or the whole new blob, and of two writers the one that completes last wins. Takes
   * `content` at the speed at which it can be written; a chunk may be used again once the next one
   * is asked for. When `content` fails or `signal` aborts, nothing is kept, what was there stays,
   * and the promise rejects with the content's own error, or with the signal's reason. When there
   * is no room, it rejects with a `StoreUnavailableError` whose reason is `full`. `content` is
   * closed (`return`) in each of these cases.
   */
  put(key: string, content: AsyncIterable<Uint8Array>, options: BlobPutOptions): Promise<BlobInfo>
  /** What is known of a blob, or `undefined` when there is none or it has expired. */
  stat(key: string): Promise<BlobInfo | undefined>
  /**
   * The bytes of a range, with backpressure; `undefined` when there is no such blob, or no longer
   * the one of `range.etag`. They can be read once. A reader that has taken its first chunk gets
   * the rest, even when the blob is replaced, deleted or expires meanwhile; one that has not may
   * find it gone, and then fails with a `StoreUnavailableError`. Nothing is held open before the
   * first chunk, nor after the last one, a failure, or `return`.
   */
  open(key: string, range?: BlobRange): Promise<AsyncIterable<Uint8Array> | undefined>
  /** `true` when something live was removed. */
  delete(key: string): Promise<boolean>
  /**
   * Lets go of timers and handles; a folder keeps its files. What is being written or read may
   * fail. Every later call rejects with a `StoreUnavailableError`, except `close`, which may be
   * called again.
   */
  close(): Promise<void>
}

/** How long a blob lives, and what stops its being written. */
export interface BlobPutOptions {
  /** Milliseconds from when it is complete until it goes, by the blobs' clock. */
  readonly ttlMs: number
  readonly signal?: AbortSignal
}

/** Which bytes of which blob. */
export interface BlobRange {
  /** The first byte, from 0. Default: 0. */
  readonly start?: number
  /** Up to, not including, this one; at most the size. Default: the size. */
  readonly end?: number
  /**
   * Only from the blob that has this entity tag, so that parts opened one by one belong together.
   */
  readonly etag?: string
}

/** What is known of a blob. */
export interface BlobInfo {
  /** Bytes. */
  readonly size: number
  /**
   * A strong entity tag, in quotes: another one for other bytes, also after the key was deleted.
   */
  readonly etag: string
}
