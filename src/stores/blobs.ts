/**
 * Storage for large data: result files, reports of bulk requests, stored bodies and uploads. A blob is
 * written once, read in ranges, and removed when it expires.
 *
 * An expected outcome is a return value. A promise rejects with a `StoreUnavailableError` if the blobs
 * failed or are closed, with the error of the content being written, or with a `TypeError` for misuse.
 *
 * Keys are well-formed strings of 1 to 512 characters without U+0000, compared by code units. A blob
 * lives for `ttlMs` after it is complete, by the clock of the blobs, and longer if it is renewed. A
 * `ttlMs` of 0 or less writes a blob that expires at once.
 */
export interface Blobs {
  /** True if other processes read the same blobs. Required with `redis()` and `postgres()`. */
  readonly shared: boolean
  /**
   * Maximum number of bytes of all blobs, of which one owner may use a quarter by default. `undefined`:
   * no limit that these blobs know.
   */
  readonly maxBytes?: number | undefined
  /**
   * Writes all of `content` under `key`, with backpressure. Replaces the old blob once the new one
   * is complete, so that each reader sees one of them completely. Of two writers, the one that
   * completes last wins. A chunk may be reused once the next one is requested.
   *
   * If `content` fails or `signal` aborts, the old blob stays and the promise rejects with that error or
   * reason. Without enough space, it rejects with a `StoreUnavailableError` with the reason `full`.
   * Closes `content` (`return`) in each of these cases.
   */
  put(key: string, content: AsyncIterable<Uint8Array>, options: BlobPutOptions): Promise<BlobInfo>
  /** Returns size and entity tag of a blob, or `undefined` if there is none or it has expired. */
  stat(key: string): Promise<BlobInfo | undefined>
  /**
   * Opens a range of a blob, with backpressure. Returns `undefined` if there is no blob, or if its
   * entity tag is not `range.etag`. The bytes can be read once.
   *
   * A reader that has received its first chunk gets the rest, even if the blob is replaced, deleted
   * or expires. For this, it must ask for a chunk at least every ten minutes. A reader that starts
   * later may fail with a `StoreUnavailableError`. No file is open before the first chunk, after
   * the last one, or after a failure or `return`.
   */
  open(key: string, range?: BlobRange): Promise<AsyncIterable<Uint8Array> | undefined>
  /**
   * Optional. Returns a URL at which anybody can GET the blob, or one range of it, for a few
   * minutes. Returns `undefined` if there is no blob, or if its entity tag is not `link.etag`.
   * Downloads are redirected to it.
   *
   * Responses at the URL have the entity tag of the blob, and the headers that `link` names. The URL never
   * shows other bytes.
   */
  link?(key: string, link: BlobLink): Promise<string | undefined>
  /**
   * Makes a blob live for at least `ttlMs` milliseconds from now. A longer lifetime stays, and so
   * do bytes and entity tag. Resolves to `undefined` if there is no blob or it has expired. After
   * any other outcome, no deletion of expired blobs removes it. If several renewals run at the same
   * time, any of them may set the lifetime.
   */
  renew(key: string, ttlMs: number): Promise<BlobInfo | undefined>
  /** Deletes a blob. Resolves to `true` if there was one that had not expired. */
  delete(key: string): Promise<boolean>
  /**
   * Releases timers and handles. Blobs that outlive the process stay. Running reads and writes may fail.
   * Every later call except `close` rejects with a `StoreUnavailableError`.
   */
  close(): Promise<void>
}

/** Options of `put`. */
export interface BlobPutOptions {
  /** Lifetime in milliseconds after the blob is complete, by the clock of the blobs. */
  readonly ttlMs: number
  /** Stops the write; nothing is kept. */
  readonly signal?: AbortSignal
}

/** Range of a blob. */
export interface BlobRange {
  /** First byte, from 0. Default 0. */
  readonly start?: number
  /** End of the range, exclusive; at most the size. Default: the size. */
  readonly end?: number
  /** Entity tag that the blob must have. Ensures that parts opened separately belong together. */
  readonly etag?: string
}

/** Headers of the responses at a URL. */
export interface LinkHeaders {
  /** Content-Type. */
  readonly type: string
  /** Content-Disposition. Default: not sent. */
  readonly disposition?: string | undefined
  /** Value of the Cache-Control header. */
  readonly cacheControl: string
}

/** Properties of a link to a blob. */
export interface BlobLink extends LinkHeaders {
  /** Entity tag that the blob must have. */
  readonly etag?: string
}

/** Size and entity tag of a blob. */
export interface BlobInfo {
  /** Size in bytes. */
  readonly size: number
  /** Strong entity tag, in quotes. Other bytes have another tag, even after a deletion. */
  readonly etag: string
}
