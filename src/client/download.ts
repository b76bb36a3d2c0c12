import type { MaybePromise } from './options.js'

/** Position of a download, from which it can be resumed later. Plain JSON. */
export interface DownloadPosition {
  /** Bytes received so far. */
  readonly received: number
  /** Strong entity tag of the content. */
  readonly etag?: string
}

/** Progress of a download. */
export interface DownloadProgress {
  /** Bytes received so far. */
  readonly received: number
  /** Size of the content. `undefined` if the server does not send it. */
  readonly total: number | undefined
}

/** Options of `download`. */
export interface DownloadOptions {
  /** Stops the download. It can be resumed. */
  readonly signal?: AbortSignal
  /** Additional header fields. */
  readonly headers?: Readonly<Record<string, string>>
  /** Resumes an earlier download at its position. */
  readonly from?: DownloadPosition
  /** Called for each chunk. */
  readonly onProgress?: (progress: DownloadProgress) => void
  /**
   * Called if the download must start again at 0, because the content has changed or cannot be
   * resumed. Discard all bytes then. Without it, the download rejects with `content_changed`.
   */
  readonly onRestart?: () => MaybePromise<void>
}

/** Destination of a download. */
export interface DownloadSink {
  /** Writes bytes at a position, in order. The next call waits for the returned promise. */
  write(bytes: Uint8Array, position: number): MaybePromise<void>
  /** Discards all written bytes. Without it, a download whose content changes rejects. */
  restart?(): MaybePromise<void>
}

/** Result of a finished download. */
export interface DownloadResult {
  /** Size of the content. */
  readonly bytes: number
  /** Media type of the content. */
  readonly type: string
  readonly etag: string | undefined
}

/**
 * A download that resumes after a broken connection. Iterate over it, or write it to a sink; only
 * once.
 */
export interface Download extends AsyncIterable<Uint8Array> {
  /** Bytes received so far. */
  readonly received: number
  /** Size of the content. `undefined` until the server has sent it. */
  readonly total: number | undefined
  /** Strong entity tag of the content. */
  readonly etag: string | undefined
  /** Media type of the content. */
  readonly type: string
  /** Current position. Pass it as `from` to resume later. */
  readonly position: DownloadPosition
  /**
   * Writes all bytes to a sink.
   *
   * @example
   * const parts: Uint8Array[] = []
   * const { type } = await api.download('/files/film.mp4').to({
   *   write: (bytes) => { parts.push(bytes) },
   *   restart: () => { parts.length = 0 },
   * })
   */
  to(sink: DownloadSink): Promise<DownloadResult>
  /**
   * Returns the content in memory.
   * @throws {TypeError} The download was resumed with `from`, so the first bytes are missing.
   */
  blob(): Promise<Blob>
}
