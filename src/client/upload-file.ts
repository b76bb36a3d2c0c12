import { checkNames, checkWhole, ClientError, isClientError, isObject } from './errors.js'
import { toIterable, type ByteSource } from './ndjson.js'
import { incremental, resolvePath, serverUrl, type CallOptions, type Settings } from './options.js'
import { backOff, canRetry } from './retry.js'
import { readAnswer, send, type Answer, type ClientRequest } from './send.js'
import { toHandle } from './submit.js'
import type { TaskHandle } from './task.js'

/** Content to upload. A stream is read once, so it cannot be resumed by another `uploadFile`. */
export type UploadContent = Blob | Uint8Array | ByteSource

export interface FileUploadProgress {
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
export interface FileUploadOptions extends CallOptions {
  /** HTTP method of the first request. Updates use PATCH. Default: POST. */
  readonly method?: string
  /** Media type of the content. Default: the type of the `Blob`, or application/octet-stream. */
  readonly type?: string
  /** Asks the server to do the work as a task. Default: false. */
  readonly background?: boolean
  /** Maximum size of the body of one request in bytes. Default: 8_388_608 (8 MiB). */
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
   * @throws {ClientError} The server could not be reached. The bytes expire by themselves.
   */
  cancel(): Promise<void>
  /**
   * Waits for the response to the whole upload: a handle for a task, or for another response.
   * @throws {ClientError} The server rejected the upload or its content, or could not be reached.
   */
  task(): Promise<TaskHandle<R>>
  /** Waits for the result of that task, or for the body of the response. */
  result(): Promise<R>
  /**
   * Returns the value for the option `from`. Called by `JSON.stringify`. `undefined` without a
   * `url`.
   */
  toJSON(): SavedFileUpload | undefined
}

const PROTOCOL = { 'accept': 'application/json', 'upload-draft-interop-version': '8' }
const OTHER_OFFSET = new Set(['upload_offset_mismatch', 'upload_superseded', 'http_409'])
/** Statuses with which an ordinary endpoint may reject the empty body of the first request. */
const NO_BODY = new Set([400, 405, 411, 415, 422, 501])
const NO_OPTIONS = new Set([404, 405, 501])

export class FileSender<R> implements FileUpload<R> {
  sent = 0
  paused = false
  url: string | undefined
  private readonly content: Content
  private readonly endpoint: URL
  private readonly done: Promise<TaskHandle<R>>
  private stop = new AbortController()
  private resumed: Promise<void> | undefined
  private wake = () => {}
  private cancelled = false
  private answered = false
  private offsetKnown = false
  private reported = -1
  private minBytes = 0
  private maxBytes: number

  constructor(
    private readonly settings: Settings, path: string, content: UploadContent,
    private readonly options: FileUploadOptions,
  ) {
    checkNames('uploadFile', options, [
      'signal', 'headers', 'method', 'type', 'background', 'statusPath', 'chunkBytes', 'from',
      'onProgress',
    ])
    const { from, chunkBytes = 8 * 1024 * 1024 } = options
    checkWhole('uploadFile', { chunkBytes })
    this.maxBytes = chunkBytes
    this.content = toContent(content)
    const { total } = this.content
    if (from?.total !== undefined && total !== undefined && from.total !== total) {
      throw new TypeError('uploadFile: from belongs to content of another size')
    }
    this.url = from?.url
    this.endpoint = resolvePath(settings, path)
    if (from !== undefined && serverUrl(from.url, this.endpoint).origin !== this.endpoint.origin) {
      throw new TypeError('uploadFile: from.url has another origin than the path')
    }
    this.done = this.run()
    this.done.catch(() => {})
  }

  get total(): number | undefined { return this.content.total }

  pause(): void {
    if (this.paused) return
    this.paused = true
    this.resumed = new Promise((resolve) => { this.wake = resolve })
    this.stop.abort()
  }

  resume(): void {
    this.paused = false
    this.wake()
  }

  async cancel(): Promise<void> {
    this.cancelled = true
    this.stop.abort()
    this.wake()
    if (this.url === undefined) return
    try {
      await this.ask({ method: 'DELETE', url: new URL(this.url), signal: undefined })
    } catch (error) {
      if (!isClientError(error) || error.status !== 404) throw error
    }
  }

  task(): Promise<TaskHandle<R>> {
    return this.done
  }

  async result(): Promise<R> {
    return (await this.done).result()
  }

  toJSON(): SavedFileUpload | undefined {
    const { url, total } = this
    return url === undefined ? undefined : { url, ...total !== undefined && { total } }
  }

  private async run(): Promise<TaskHandle<R>> {
    const { settings, options: { signal, statusPath } } = this
    const abort = () => {
      this.stop.abort()
      this.wake()
    }
    signal?.addEventListener('abort', abort)
    let furthest = 0
    try {
      for (let failures = 0; ;) {
        while (this.paused && !this.cancelled && !signal?.aborted) await this.resumed
        try {
          if (!this.cancelled) this.stop = new AbortController()
          signal?.throwIfAborted()
          return toHandle<R>(settings, await this.sendAll(), statusPath)
        } catch (error) {
          signal?.throwIfAborted()
          if (this.cancelled) throw new ClientError('upload_cancelled', 'The upload was cancelled.')
          this.offsetKnown = false
          if (this.stop.signal.aborted) continue
          if (this.sent > furthest) failures = 0
          furthest = Math.max(furthest, this.sent)
          if (this.answered) throw error
          await backOff(settings, { error, failures: ++failures }, ({ code }) => (
            OTHER_OFFSET.has(code) || canRetry(error, 'read')
          ), signal)
        }
      }
    } finally {
      signal?.removeEventListener('abort', abort)
    }
  }

  /** Sends the remaining bytes. Resolves to the final response. */
  private async sendAll(): Promise<Answer> {
    if (this.url === undefined) await this.create()
    if (!this.offsetKnown) await this.askOffset()
    for (;;) {
      const size = Math.max(this.minBytes, this.maxBytes)
      const { body, last } = await this.content.piece(this.sent, size)
      if (this.sent > (this.total ?? Infinity)) {
        throw new ClientError('content_lost', 'The server has more bytes than the content.')
      }
      const answer = await this.append(body, last)
      this.setOffset(this.sent + body.size)
      if (last) return answer
    }
  }

  private async create(): Promise<void> {
    const { endpoint, content, total, options } = this
    const { method = 'POST', type, background } = options
    let answer
    try {
      answer = await this.ask({
        method, url: endpoint, headers: {
          'content-type': type ?? (content.type || 'application/octet-stream'),
          'prefer': background ? 'respond-async' : undefined,
          'upload-complete': '?0',
          'upload-length': total === undefined ? undefined : String(total),
        },
      })
    } catch (error) {
      throw await this.isUnsupported(error) ? notResumable(error) : error
    }
    const { headers, url } = answer
    const location = headers.get('location')
    if (headers.get('upload-complete') !== '?0' || location === null) throw notResumable()
    this.readLimits(headers)
    const upload = serverUrl(location, url)
    if (upload.origin !== endpoint.origin) {
      throw new ClientError('other_origin', 'The server named an upload at another origin,'
        + ` ${upload.origin}. The content was not sent there.`)
    }
    this.url = upload.href
    this.offsetKnown = true
    this.setOffset(0)
  }

  /** Returns true if the first request failed because its endpoint has no resumable uploads. */
  private async isUnsupported(error: unknown): Promise<boolean> {
    if (!isClientError(error) || !NO_BODY.has(error.status)) return false
    try {
      const { headers } = await this.ask({ method: 'OPTIONS', url: this.endpoint })
      return headers.get('upload-limit') === null
    } catch (options) {
      return isClientError(options) && NO_OPTIONS.has(options.status)
    }
  }

  private async askOffset(): Promise<void> {
    const { headers } = await this.ask({ method: 'HEAD', url: new URL(this.url as string) })
    const offset = headers.get('upload-offset') ?? ''
    if (!/^\d+$/.test(offset)) throw new ClientError('bad_answer', 'The offset is missing.')
    this.readLimits(headers)
    this.offsetKnown = true
    this.setOffset(Number(offset))
  }

  private append(body: Blob, last: boolean): Promise<Answer> {
    return this.ask({
      method: 'PATCH', url: new URL(this.url as string), body: () => body,
      onHeaders: (headers) => { this.answered = headers.get('upload-complete') === '?1' },
      headers: {
        'content-type': 'application/partial-upload',
        'incremental': incremental(),
        'upload-offset': String(this.sent),
        'upload-complete': last ? '?1' : '?0',
        'upload-length': last ? String(this.sent + body.size) : undefined,
      },
    })
  }

  private async ask(call: ClientRequest): Promise<Answer> {
    const headers = { ...PROTOCOL, ...this.options.headers, ...call.headers }
    return readAnswer(await send(this.settings, { signal: this.stop.signal, ...call, headers }))
  }

  private readLimits(headers: Headers): void {
    const limit = (name: string) => (
      new RegExp(`(?:^|,)\\s*${name}=(\\d+)`).exec(headers.get('upload-limit') ?? '')?.[1]
    )
    this.maxBytes = Math.min(this.maxBytes, Number(limit('max-append-size') ?? Infinity))
    this.minBytes = Number(limit('min-append-size') ?? 0)
  }

  private setOffset(offset: number): void {
    this.sent = offset
    if (offset === this.reported) return
    this.reported = offset
    this.options.onProgress?.({ sent: offset, total: this.total })
  }
}

function notResumable(cause?: unknown): ClientError {
  const message = 'The server has no resumable uploads at this path. Send an ordinary request.'
  return new ClientError('not_resumable', message, { cause })
}

interface Content {
  readonly total: number | undefined
  readonly type: string
  /** Returns at most `size` bytes from `start`. The same piece can be read again. */
  piece(start: number, size: number): Promise<Piece>
}

interface Piece {
  readonly body: Blob
  readonly last: boolean
}

/** Returns the content in pieces. A stream is held in memory as far as it may be sent again. */
function toContent(content: UploadContent): Content {
  if (content instanceof Uint8Array) return toContent(new Blob([toPart(content)]))
  if (content instanceof Blob) {
    const { size: total, type } = content
    return {
      total, type, piece: async (start, size) => (
        { body: content.slice(start, start + size), last: start + size >= total }
      ),
    }
  }
  if (isObject(content) && (Symbol.asyncIterator in content || 'getReader' in content)) {
    return new StreamContent(toIterable(content))
  }
  throw new TypeError(
    'uploadFile: the content must be a Blob, a Uint8Array, a ReadableStream or an async iterable',
  )
}

class StreamContent implements Content {
  readonly type = ''
  total: number | undefined
  private held = new Blob([])
  private start = 0

  constructor(private readonly source: AsyncGenerator<Uint8Array, void, undefined>) {}

  async piece(start: number, size: number): Promise<Piece> {
    if (start < this.start) {
      throw new ClientError('content_lost', 'The server needs bytes again that the stream can no longer return.')
    }
    // One byte more, to know whether it ends here.
    while (this.total === undefined && this.start + this.held.size <= start + size) {
      const { done, value } = await this.source.next()
      if (done === true) this.total = this.start + this.held.size
      else this.held = new Blob([this.held, toPart(value)])
      this.drop(start)
    }
    this.drop(start)
    return { body: this.held.slice(0, size), last: this.held.size <= size }
  }

  private drop(start: number): void {
    const passed = Math.min(start - this.start, this.held.size)
    this.start += passed
    this.held = this.held.slice(passed)
  }
}

/** Node and browsers have different types for a part of a `Blob`. Both copy its bytes. */
function toPart(bytes: unknown): Uint8Array<ArrayBuffer> {
  return bytes as Uint8Array<ArrayBuffer>
}
