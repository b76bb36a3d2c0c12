import { ClientError, isClientError } from '../errors.js'
import { checkNames } from '../option-names.js'
import { resolvePath, serverUrl, type Settings } from '../options.js'
import { pause, reasonOf, retryDelay } from '../pause.js'
import { toHandle } from '../submit.js'
import type { TaskHandle } from '../task.js'
import { canRetry, readAnswer, send, type Answer, type Call } from '../transport.js'
import { toContent, type Content } from './content.js'
import type { FileUpload, FileUploadOptions, SavedFileUpload, UploadContent } from './types.js'

const KNOWN = {
  signal: 0, headers: 0, method: 0, type: 0, background: 0, statusPath: 0, chunkBytes: 0, from: 0,
  onProgress: 0,
} satisfies Record<keyof FileUploadOptions, 0>

/** Names the version of draft-ietf-httpbis-resumable-upload that this client speaks. */
const PROTOCOL = { 'accept': 'application/json', 'upload-draft-interop-version': '8' }
/** Errors after which the offset tells where to continue. */
const OTHER_OFFSET = new Set(['upload_offset_mismatch', 'upload_superseded', 'http_409'])

/** Statuses with which an ordinary endpoint may refuse the empty body of the first request. */
const NO_BODY = new Set([400, 405, 411, 415, 422, 501])
/** Statuses of a server that does not answer OPTIONS at the endpoint. */
const NO_OPTIONS = new Set([404, 405, 501])

function notResumable(cause?: unknown): ClientError {
  const message = 'The server has no resumable uploads at this path. Send an ordinary request.'
  return new ClientError('not_resumable', message, { cause })
}

/** Implements `FileUpload`. */
export class FileSender<R> implements FileUpload<R> {
  sent = 0
  paused = false
  url: string | undefined
  private readonly content: Content
  private readonly endpoint: URL
  private readonly done: Promise<TaskHandle<R>>
  /** Ends the request that is running. */
  private stop = new AbortController()
  private wake = () => {}
  private cancelled = false
  /** The server has answered the whole upload, perhaps with an error. */
  private answered = false
  private offsetKnown = false
  /** Offset of the last call of `onProgress`. */
  private reported = -1
  private least = 0
  private most: number

  constructor(
    private readonly settings: Settings, path: string, content: UploadContent,
    private readonly options: FileUploadOptions,
  ) {
    checkNames('uploadFile', options, KNOWN)
    const { from, chunkBytes = 8 * 1024 * 1024 } = options
    if (!(chunkBytes >= 1)) throw new TypeError('uploadFile: chunkBytes must be 1 or more')
    this.most = Math.floor(chunkBytes)
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

  get total(): number | undefined {
    return this.content.total
  }

  pause(): void {
    this.paused = true
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
      // A stop of its own, because no other request may follow.
      await this.ask({ method: 'DELETE', url: new URL(this.url) }, new AbortController(), null)
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
    let furthest = 0
    for (let failures = 0; ;) {
      try {
        await this.begin()
        return toHandle<R>(settings, await this.attempt(), statusPath)
      } catch (error) {
        if (signal?.aborted) throw reasonOf(signal)
        if (this.cancelled) throw new ClientError('upload_cancelled', 'The upload was cancelled.')
        this.offsetKnown = false
        if (this.stop.signal.aborted) continue
        if (this.sent > furthest) failures = 0
        furthest = Math.max(furthest, this.sent)
        if (this.answered || ++failures >= settings.attempts || !this.mayRetry(error)) throw error
        const ms = retryDelay(settings, failures, error)
        if (ms === undefined) throw error
        await pause(ms, signal)
      }
    }
  }

  /** Waits until the upload is not paused, and prepares the next requests. */
  private async begin(): Promise<void> {
    const { signal } = this.options
    while (this.paused && !this.cancelled) {
      await new Promise<void>((resolve, reject) => {
        const over = () => { if (signal) reject(reasonOf(signal)) }
        this.wake = () => {
          signal?.removeEventListener('abort', over)
          resolve()
        }
        signal?.addEventListener('abort', over)
      })
    }
    if (this.cancelled) throw new Error('cancelled')
    this.stop = new AbortController()
  }

  private mayRetry(error: unknown): error is ClientError {
    return (isClientError(error) && OTHER_OFFSET.has(error.code)) || canRetry(error, 'read')
  }

  /** Sends all that is missing. Resolves to the answer to the whole. */
  private async attempt(): Promise<Answer> {
    if (this.url === undefined) await this.create()
    if (!this.offsetKnown) await this.askOffset()
    for (;;) {
      const size = Math.max(this.least, this.most)
      const { body, last } = await this.content.piece(this.sent, size)
      if (this.sent > (this.total ?? Infinity)) {
        throw new ClientError('content_lost', 'The server has more bytes than the content.')
      }
      const answer = await this.append(body, last)
      this.moved(this.sent + body.size)
      if (last) return answer
    }
  }

  private async create(): Promise<void> {
    const { endpoint, content, total, options } = this
    const { method = 'POST', type, background } = options
    const request = {
      method, url: endpoint, headers: {
        'content-type': type ?? (content.type || 'application/octet-stream'),
        'prefer': background ? 'respond-async' : undefined,
        'upload-complete': '?0',
        'upload-length': total === undefined ? undefined : String(total),
      },
    }
    let answer
    try {
      answer = await this.ask(request)
    } catch (error) {
      throw await this.isUnsupported(endpoint, error) ? notResumable(error) : error
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
    this.moved(0)
  }

  /**
   * Returns true if the first request failed because its endpoint has no resumable uploads. Such an
   * endpoint misses the body, and its OPTIONS names no limits of uploads (draft section 4.1.4).
   */
  private async isUnsupported(endpoint: URL, error: unknown): Promise<boolean> {
    if (!isClientError(error) || !NO_BODY.has(error.status)) return false
    try {
      const { headers } = await this.ask({ method: 'OPTIONS', url: endpoint })
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
    this.moved(Number(offset))
  }

  private append(body: Blob, last: boolean): Promise<Answer> {
    return this.ask({
      method: 'PATCH', url: new URL(this.url as string), body: () => body,
      onHeaders: (headers) => { this.answered = headers.get('upload-complete') === '?1' },
      headers: {
        'content-type': 'application/partial-upload',
        'upload-offset': String(this.sent),
        'upload-complete': last ? '?1' : '?0',
        'upload-length': last ? String(this.sent + body.size) : undefined,
      },
    })
  }

  private async ask(
    call: Call, stop = this.stop, signal: AbortSignal | null | undefined = this.options.signal,
  ): Promise<Answer> {
    const abort = () => { stop.abort() }
    signal?.addEventListener('abort', abort)
    if (signal?.aborted) abort()
    try {
      const headers = { ...PROTOCOL, ...this.options.headers, ...call.headers }
      return await send(this.settings, { ...call, headers, signal: stop.signal }, readAnswer)
    } finally {
      signal?.removeEventListener('abort', abort)
    }
  }

  private readLimits(headers: Headers): void {
    const limit = (name: string) => (
      new RegExp(`(?:^|,)\\s*${name}=(\\d+)`).exec(headers.get('upload-limit') ?? '')?.[1]
    )
    this.most = Math.min(this.most, Number(limit('max-append-size') ?? Infinity))
    this.least = Number(limit('min-append-size') ?? 0)
  }

  private moved(offset: number): void {
    this.sent = offset
    if (offset === this.reported) return
    this.reported = offset
    this.options.onProgress?.({ sent: offset, total: this.total })
  }
}
