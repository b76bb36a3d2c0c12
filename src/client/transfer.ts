import { chunksOf } from './chunks.js'
import type {
  Download, DownloadOptions, DownloadPosition, DownloadResult, DownloadSink,
} from './download.js'
import { ClientError } from './errors.js'
import { checkNames } from './option-names.js'
import type { MaybePromise, Settings } from './options.js'
import { pause, retryDelay } from './pause.js'
import { ReprDigest } from './digest/repr-digest.js'
import type { Scope } from './scope.js'
import { canRetry, send } from './transport.js'

const KNOWN = {
  signal: 0, headers: 0, from: 0, onProgress: 0, onRestart: 0,
} satisfies Record<keyof DownloadOptions, 0>

/** HTTP status: the range begins at or after the end of the content (RFC 9110 section 15.5.17). */
const BEYOND_END = 416

type Chunks<R = void> = AsyncGenerator<Uint8Array, R, undefined>
type OnRestart = (() => MaybePromise<void>) | undefined

/** Implements `Download`. */
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
    /** Origin that receives the header fields of the application. */
    private readonly origin = url.origin,
  ) {
    checkNames('download', options, KNOWN)
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

  async to(sink: DownloadSink): Promise<DownloadResult> {
    const { onRestart } = this.options
    const restart = sink.restart && (async () => {
      await sink.restart?.()
      await onRestart?.()
    })
    for await (const bytes of this.bytes(restart ?? onRestart)) {
      await sink.write(bytes, this.received - bytes.length)
    }
    return { bytes: this.received, type: this.type, etag: this.etag }
  }

  async blob(): Promise<Blob> {
    if (this.received > 0) {
      throw new TypeError('blob: the download was resumed, so its first bytes are missing')
    }
    let parts: Uint8Array<ArrayBuffer>[] = []
    await this.to({
      write: (bytes) => { parts.push(Uint8Array.from(bytes)) },
      restart: () => { parts = [] },
    })
    return new Blob(parts, { type: this.type })
  }

  private async* bytes(onRestart: OnRestart): Chunks {
    const { settings, options: { signal } } = this
    for (let failures = 0; ;) {
      const before = this.furthest
      try {
        if (yield* this.attempt(onRestart)) return
      } catch (error) {
        if (this.furthest > before) failures = 0
        failures++
        if (failures >= settings.attempts || !canRetry(error, 'read')) throw error
        const ms = retryDelay(settings, failures, error)
        if (ms === undefined) throw error
        await pause(ms, signal)
      }
    }
  }

  /** Sends one request. Returns `true` at the end of the content. Throws if the answer breaks. */
  private async* attempt(onRestart: OnRestart): Chunks<boolean> {
    const { settings, options: { signal, headers } } = this
    // Without a strong tag, the content may be another one now.
    const resumes = this.received > 0 && this.etag !== undefined
    const call = {
      url: this.url, origin: this.origin, signal, expects: BEYOND_END,
      headers: {
        ...headers,
        // Even the first request asks for a range. Its answer is not compressed, so its length
        // can be verified.
        'range': `bytes=${resumes ? this.received : 0}-`,
        'if-range': resumes ? this.etag : undefined,
      },
    }
    const { response, scope } = await send(
      settings, call, (response, scope) => ({ response, scope }),
    )
    if (response.status === BEYOND_END) {
      discard(response, scope)
      if (!this.finish(response, resumes)) return false
      this.checkDigest()
      return true
    }
    const part = partOf(response, scope)
    const etag = strongTag(response.headers.get('etag'))
    const same = resumes && (etag === undefined ? response.status === 206 : etag === this.etag)
    if (part.start !== 0 && !(same && part.start === this.received)) {
      discard(response, scope)
      await this.restart(onRestart)
      return false
    }
    if (this.received > 0 && !same) {
      try {
        await this.restart(onRestart)
      } catch (error) {
        discard(response, scope)
        throw error
      }
    }
    this.etag = etag ?? (same ? this.etag : undefined)
    this.total = part.total
    this.type = response.headers.get('content-type') ?? ''
    if (this.received === 0) this.digest = ReprDigest.of(response.headers)
    yield* this.chunks(response, scope, part.start)
    const { received, total } = this
    if (total !== undefined && received !== total) {
      const message = `The content broke off after ${received} of ${total} bytes.`
      throw new ClientError('network_error', message)
    }
    this.checkDigest()
    return true
  }

  private checkDigest(): void {
    if (this.digest === undefined || this.digest.matches()) return
    throw new ClientError('digest_mismatch', 'The content is not what its Repr-Digest says.')
  }

  private async* chunks(response: Response, scope: Scope, start: number): Chunks {
    // A server without ranges sends the same content from 0. Skip the bytes received before.
    let skip = this.received - start
    for await (const chunk of chunksOf(response.body, scope)) {
      const bytes = skip === 0 ? chunk : chunk.subarray(Math.min(skip, chunk.length))
      skip -= chunk.length - bytes.length
      if (bytes.length === 0) continue
      this.received += bytes.length
      this.digest?.update(bytes)
      const { received, total } = this
      if (total !== undefined && received > total) {
        const message = `The content is longer than the ${total} bytes that the server announced.`
        throw new ClientError('length_mismatch', message, { status: response.status })
      }
      this.furthest = Math.max(this.furthest, received)
      this.options.onProgress?.({ received, total })
      yield bytes
    }
  }

  /** Handles a 416. Returns `true` if all bytes were received, `false` if the content shrank. */
  private finish({ status, headers }: Response, resumes: boolean): boolean {
    const [, size] = /^bytes \*\/(\d{1,15})$/i.exec(headers.get('content-range') ?? '') ?? []
    const total = Number(size ?? (resumes ? -1 : 0))
    if (total === this.received) {
      this.total = total
      return true
    }
    if (!resumes && total !== 0) {
      throw new ClientError('bad_answer', 'The server refused a range from 0.', { status })
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

function discard(response: Response, scope: Scope): void {
  response.body?.cancel().catch(() => undefined)
  scope.close()
}

interface Part {
  readonly start: number
  readonly total: number | undefined
}

/** Returns the first position and the total size of an answer (RFC 9110 section 14.4). */
function partOf(response: Response, scope: Scope): Part {
  const { status, headers } = response
  if (status === 206) {
    const range = /^bytes (\d{1,15})-\d{1,15}\/(\d{1,15}|\*)$/i
    const [, start, total] = range.exec(headers.get('content-range') ?? '') ?? []
    if (start === undefined) {
      discard(response, scope)
      const message = 'The 206 answer has no valid Content-Range.'
      throw new ClientError('bad_answer', message, { status })
    }
    return { start: Number(start), total: total === '*' ? undefined : Number(total) }
  }
  const length = headers.get('content-length')
  // The length of a compressed answer is not the length of its content.
  const coded = (headers.get('content-encoding') ?? 'identity') !== 'identity'
  return { start: 0, total: length === null || coded ? undefined : Number(length) }
}

/** Returns an entity tag for a precondition; `undefined` for a weak one. */
export function strongTag(field: string | null): string | undefined {
  return field?.startsWith('"') ? field : undefined
}
