import type { MaybePromise } from '../wire/maybe-promise.js'
import { ReprDigest } from './digest.js'
import { checkNames, ClientError } from './errors.js'
import type { CallOptions, Settings } from './options.js'
import { backOff } from './retry.js'
import { chunksOf, discard, send, type Received } from './send.js'

/** Position of a download, from which it can be resumed later. Plain JSON. */
export interface DownloadPosition {
  /** Bytes received so far. */
  readonly received: number
  /** Strong entity tag of the content. */
  readonly etag?: string
}

export interface DownloadProgress {
  readonly received: number
  readonly total: number | undefined
}

/** Options of `download`. */
export interface DownloadOptions extends Pick<CallOptions, 'signal' | 'headers'> {
  /** Resumes an earlier download at its position. */
  readonly from?: DownloadPosition
  /** Called for each chunk. */
  readonly onProgress?: (progress: DownloadProgress) => void
  /**
   * Called if the content has changed or cannot be resumed. Discard all bytes then: the download
   * starts again at 0.
   *
   * Without it, the download rejects with `content_changed`.
   */
  readonly onRestart?: () => MaybePromise<void>
}

/**
 * A download that resumes after a broken connection. Iterate over its bytes, or call `blob`, once.
 * @example
 * const parts: Uint8Array[] = []
 * const download = api.download('/files/film.mp4', { onRestart: () => { parts.length = 0 } })
 * for await (const bytes of download) parts.push(bytes)
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
   * Returns the content in memory.
   * @throws {TypeError} The download was resumed with `from`, so the first bytes are missing.
   */
  blob(): Promise<Blob>
}

const BEYOND_END = 416

type Chunks<R = void> = AsyncGenerator<Uint8Array, R, undefined>
type OnRestart = (() => MaybePromise<void>) | undefined

export class Transfer implements Download {
  received: number
  total: number | undefined
  etag: string | undefined
  type = ''
  /** Highest `received` so far. An attempt that does not pass it counts as a failure. */
  private furthest = 0
  private restarts = 0
  /** Check of the whole content; absent if its first bytes were not received here. */
  private digest: ReprDigest | undefined

  constructor(
    private readonly settings: Settings,
    private readonly url: URL,
    private readonly options: DownloadOptions,
    /** Origin that receives the headers of the application. */
    private readonly origin = url.origin,
  ) {
    checkNames('download', options, ['signal', 'headers', 'from', 'onProgress', 'onRestart'])
    const { received = 0, etag } = options.from ?? {}
    if (!(Number.isInteger(received) && received >= 0)) {
      throw new TypeError('download: from.received must be a whole number from 0')
    }
    this.received = received
    this.etag = etag
  }

  get position(): DownloadPosition {
    return { received: this.received, ...this.etag !== undefined && { etag: this.etag } }
  }

  [Symbol.asyncIterator](): Chunks {
    return this.bytes(this.options.onRestart)
  }

  async blob(): Promise<Blob> {
    if (this.received > 0) {
      throw new TypeError('blob: the download was resumed, so its first bytes are missing')
    }
    const parts: Uint8Array<ArrayBuffer>[] = []
    const bytes = this.bytes(() => {
      parts.length = 0
      return this.options.onRestart?.()
    })
    for await (const chunk of bytes) parts.push(Uint8Array.from(chunk))
    return new Blob(parts, { type: this.type })
  }

  private async* bytes(onRestart: OnRestart): Chunks {
    for (let failures = 0; ;) {
      const before = this.furthest
      try {
        if (yield* this.attempt(onRestart)) return
      } catch (error) {
        failures = this.furthest > before ? 1 : failures + 1
        await backOff(this.settings, { error, failures }, 'read', this.options.signal)
      }
    }
  }

  /** Sends one request. Returns `true` at the end of the content, `false` to send another one. */
  private async* attempt(onRestart: OnRestart): Chunks<boolean> {
    const { signal, headers } = this.options
    // Without a strong tag, the content may be another one now.
    const resumes = this.received > 0 && this.etag !== undefined
    const answer = await send(this.settings, {
      url: this.url, origin: this.origin, signal, expects: BEYOND_END,
      headers: {
        ...headers,
        // Even the first request asks for a range. Its response is not compressed, so its length
        // can be verified.
        'range': `bytes=${resumes ? this.received : 0}-`,
        'if-range': resumes ? this.etag : undefined,
      },
    })
    let start
    try {
      start = await this.startOf(answer, resumes, onRestart)
    } catch (error) {
      discard(answer)
      throw error
    }
    if (typeof start === 'number') yield* this.chunks(answer, start)
    else discard(answer)
    if (start === 'again') return false
    const { received, total } = this
    if (total !== undefined && received !== total) {
      const message = `The content broke off after ${received} of ${total} bytes.`
      throw new ClientError('network_error', message)
    }
    if (this.digest === undefined || this.digest.matches()) return true
    throw new ClientError('digest_mismatch', 'The content is not what its Repr-Digest says.')
  }

  /**
   * Returns the position at which the body starts; `end` if nothing is missing; `again` if the body
   * is useless. Restarts the download if the content has changed.
   */
  private async startOf(
    { response, url }: Received, resumes: boolean, onRestart: OnRestart,
  ): Promise<number | 'end' | 'again'> {
    const { status, headers } = response
    if (status === BEYOND_END) return this.isWhole(headers, resumes) ? 'end' : 'again'
    const part = partOf(response)
    const etag = strongTag(headers)
    const same = resumes && (etag === undefined ? status === 206 : etag === this.etag)
    const isUseless = part.start !== 0 && !(same && part.start === this.received)
    if (isUseless || (this.received > 0 && !same)) await this.restart(onRestart)
    if (isUseless) return 'again'
    this.etag = etag ?? (same ? this.etag : undefined)
    this.total = part.total
    this.type = headers.get('content-type') ?? ''
    if (this.received === 0) this.digest = ReprDigest.of(headers) ?? await this.digestByHead(url)
    return part.start
  }

  /**
   * If the server has redirected to another server that sends no digest, asks the first server for
   * the digest that the application wants.
   */
  private async digestByHead(url: string): Promise<ReprDigest | undefined> {
    const { signal, headers } = this.options
    if (url === this.url.href || headers?.['want-repr-digest'] === undefined) return undefined
    const answer = await send(this.settings, { method: 'HEAD', url: this.url, origin: this.origin, signal, headers })
    discard(answer)
    const isSame = this.etag !== undefined && strongTag(answer.response.headers) === this.etag
    return isSame ? ReprDigest.of(answer.response.headers) : undefined
  }

  private async* chunks(answer: Received, start: number): Chunks {
    // A server without ranges sends the same content from 0. Skip the bytes received before.
    let skip = this.received - start
    for await (const chunk of chunksOf(answer)) {
      const bytes = skip === 0 ? chunk : chunk.subarray(Math.min(skip, chunk.length))
      skip -= chunk.length - bytes.length
      if (bytes.length === 0) continue
      this.received += bytes.length
      this.digest?.update(bytes)
      const { received, total } = this
      if (total !== undefined && received > total) {
        const message = `The content is longer than the ${total} bytes that the server announced.`
        throw new ClientError('length_mismatch', message, { status: answer.response.status })
      }
      this.furthest = Math.max(this.furthest, received)
      this.options.onProgress?.({ received, total })
      yield bytes
    }
  }

  /** Handles a 416. Returns `true` if all bytes were received, `false` if the content shrank. */
  private isWhole(headers: Headers, resumes: boolean): boolean {
    const [, size] = /^bytes \*\/(\d{1,15})$/i.exec(headers.get('content-range') ?? '') ?? []
    const total = Number(size ?? (resumes ? -1 : 0))
    if (total === this.received) {
      this.total = total
      return true
    }
    if (!resumes && total !== 0) {
      throw new ClientError('bad_answer', 'The server rejected a range from 0.', {
        status: BEYOND_END,
      })
    }
    // Without a tag, the next request asks for all of it.
    this.etag = undefined
    return false
  }

  private async restart(onRestart: OnRestart): Promise<void> {
    this.restarts++
    if (!onRestart || this.restarts > this.settings.attempts) {
      const message = 'The content has changed since the download began, or cannot be resumed.'
      throw new ClientError('content_changed', message)
    }
    this.received = 0
    this.furthest = 0
    this.etag = undefined
    await onRestart()
  }
}

/** Returns the first position and the total size of a response (RFC 9110 section 14.4). */
function partOf(
  { status, headers }: Response,
): { readonly start: number, readonly total: number | undefined } {
  if (status === 206) {
    const range = /^bytes (\d{1,15})-\d{1,15}\/(\d{1,15}|\*)$/i
    const [, start, total] = range.exec(headers.get('content-range') ?? '') ?? []
    if (start !== undefined) {
      return { start: Number(start), total: total === '*' ? undefined : Number(total) }
    }
    throw new ClientError('bad_answer', 'The 206 has no valid Content-Range.', { status })
  }
  const length = headers.get('content-length')
  // The length of a compressed body is not the length of its content.
  const coded = (headers.get('content-encoding') ?? 'identity') !== 'identity'
  return { start: 0, total: length === null || coded ? undefined : Number(length) }
}

export function strongTag(headers: Headers): string | undefined {
  const etag = headers.get('etag')
  return etag?.startsWith('"') ? etag : undefined
}
