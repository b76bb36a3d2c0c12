import { chunksOf } from './chunks.js'
import { ClientError } from './errors.js'
import { checkNames } from './option-names.js'
import { resolvePath, type MaybePromise, type Settings } from './options.js'
import { pause, retryDelay } from './pause.js'
import type { Scope } from './scope.js'
import { mayPass, send } from './transport.js'

/** Where a download is: enough to go on with it later. Plain JSON. */
export interface DownloadPosition {
  /** The bytes that are there. */
  readonly received: number
  /** The strong entity tag of what they are part of. */
  readonly etag?: string
}

/** How something is downloaded. */
export interface DownloadOptions {
  /** Stops the download, which can be resumed. */
  readonly signal?: AbortSignal
  /** Further header fields. */
  readonly headers?: Readonly<Record<string, string>>
  /** Goes on where an earlier download stopped. */
  readonly from?: DownloadPosition
  /** Is called with each piece. `total` is `undefined` where the server does not say it. */
  readonly onProgress?: (progress: { readonly received: number; readonly total: number | undefined }) => void
  /**
   * Is called when the content has changed, or can't be resumed, and what was given so far has to
   * be thrown away: the bytes begin at 0 again. Without it such a download rejects with
   * `content_changed`.
   */
  readonly onRestart?: () => MaybePromise<void>
}

const KNOWN = {
  signal: 0, headers: 0, from: 0, onProgress: 0, onRestart: 0,
} satisfies Record<keyof DownloadOptions, 0>

/** What takes the bytes of a download. */
export interface DownloadSink {
  /** Writes bytes at a position; they come in order. The next ones come when it is done. */
  write(bytes: Uint8Array, position: number): MaybePromise<void>
  /**
   * Throws away all that was written. Without it a download whose content changes midway rejects.
   */
  restart?(): MaybePromise<void>
}

/** What is asked for begins at the end of the content, or behind it (RFC 9110 section 15.5.17). */
const BEYOND_END = 416

/**
 * Bytes that arrive whole however often the connection breaks. Iterate over it, or hand it a sink;
 * once.
 */
export interface Download extends AsyncIterable<Uint8Array> {
  /** The bytes that have been given out so far. */
  readonly received: number
  /** All bytes there are, once the server has said so. */
  readonly total: number | undefined
  /** The strong entity tag of the content. */
  readonly etag: string | undefined
  /** The media type of the content. */
  readonly type: string
  /** Where it is now; give it as `from` to go on later. */
  readonly position: DownloadPosition
  /** Writes all of it to a sink. Resolves with how many bytes it has, and what they are. */
  to(sink: DownloadSink): Promise<{ readonly bytes: number; readonly type: string; readonly etag: string | undefined }>
  /** All of it in memory. Not for a download that began elsewhere. */
  blob(): Promise<Blob>
}

/** How `Download` is done. */
export class Transfer implements Download {
  received: number
  total: number | undefined
  etag: string | undefined
  type = ''
  /** The furthest that it ever came: a try that comes no further is a failure. */
  private furthest = 0
  private restarts = 0

  constructor(private readonly settings: Settings, private readonly path: string, private readonly options: DownloadOptions) {
    checkNames('download', options, KNOWN)
    const { received = 0, etag } = options.from ?? {}
    if (!(Number.isInteger(received) && received >= 0)) throw new TypeError('download: from.received must be a whole number from 0')
    this.received = received
    this.etag = etag
  }

  get position(): DownloadPosition {
    return { received: this.received, ...this.etag !== undefined && { etag: this.etag } }
  }

  [Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    return this.bytes(this.options.onRestart)
  }

  async to(sink: DownloadSink): Promise<{ readonly bytes: number; readonly type: string; readonly etag: string | undefined }> {
    const { onRestart } = this.options
    const restart = sink.restart && (async () => {
      await sink.restart?.()
      await onRestart?.()
    })
    let position = this.received
    for await (const bytes of this.bytes(restart ?? onRestart)) {
      position = this.received - bytes.length
      await sink.write(bytes, position)
    }
    return { bytes: this.received, type: this.type, etag: this.etag }
  }

  async blob(): Promise<Blob> {
    if (this.received > 0) throw new TypeError('blob: this download has begun elsewhere; what is missing is not here')
    let parts: Uint8Array<ArrayBuffer>[] = []
    await this.to({ write: (bytes) => { parts.push(Uint8Array.from(bytes)) }, restart: () => { parts = [] } })
    return new Blob(parts, { type: this.type })
  }

  private async* bytes(onRestart: (() => MaybePromise<void>) | undefined): AsyncGenerator<Uint8Array, void, undefined> {
    const { settings, options: { signal } } = this
    for (let failures = 0; ;) {
      const before = this.furthest
      try {
        if (yield* this.attempt(onRestart)) return
      } catch (error) {
        if (this.furthest > before) failures = 0
        failures++
        if (failures >= settings.attempts || !mayPass(error, 'read')) throw error
        const ms = retryDelay(settings, failures, error)
        if (ms === undefined) throw error
        await pause(ms, signal)
      }
    }
  }

  /** One request; whether it came to the end. Rejects when it broke off. */
  private async* attempt(onRestart: (() => MaybePromise<void>) | undefined): AsyncGenerator<Uint8Array, boolean, undefined> {
    const { settings, options: { signal, headers } } = this
    // Without a strong tag what is there now may not be what was there before.
    const goOn = this.received > 0 && this.etag !== undefined
    const call = {
      url: resolvePath(settings, this.path), signal, expects: BEYOND_END,
      // A range is asked for from the first byte on: such an answer is not compressed, so its
      // length can be held against it.
      headers: { ...headers, 'range': `bytes=${goOn ? this.received : 0}-`, 'if-range': goOn ? this.etag : undefined },
    }
    const { response, scope } = await send(settings, call, (response, scope) => ({ response, scope }))
    if (response.status === BEYOND_END) {
      discard(response, scope)
      return this.finish(response, goOn)
    }
    const part = partOf(response, scope)
    const etag = strongTag(response.headers.get('etag'))
    const same = goOn && (etag === undefined ? response.status === 206 : etag === this.etag)
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
    yield* this.pieces(response, scope, part.start)
    const { received, total } = this
    if (total !== undefined && received !== total) throw new ClientError('network_error', `The content broke off after ${received} of ${total} bytes.`)
    return true
  }

  private async* pieces(response: Response, scope: Scope, start: number): AsyncGenerator<Uint8Array, void, undefined> {
    // A server that has no ranges begins at 0 with the same content: what is there already is
    // passed over.
    let skip = this.received - start
    for await (const chunk of chunksOf(response.body, scope)) {
      const bytes = skip === 0 ? chunk : chunk.subarray(Math.min(skip, chunk.length))
      skip -= chunk.length - bytes.length
      if (bytes.length === 0) continue
      this.received += bytes.length
      const { received, total } = this
      if (total !== undefined && received > total) {
        throw new ClientError('length_mismatch', `The content is longer than the ${total} bytes that the server said.`, { status: response.status })
      }
      this.furthest = Math.max(this.furthest, received)
      this.options.onProgress?.({ received, total })
      yield bytes
    }
  }

  /** Nothing lies behind what is there: it is all, or the content has become shorter. */
  private finish({ status, headers }: Response, goOn: boolean): boolean {
    const total = Number(/^bytes \*\/(\d{1,15})$/i.exec(headers.get('content-range') ?? '')?.[1] ?? (goOn ? -1 : 0))
    if (total === this.received) {
      this.total = total
      return true
    }
    if (!goOn && total !== 0) throw new ClientError('bad_answer', 'The server has content, but gives none of it.', { status })
    // The next request asks for all of it.
    this.etag = undefined
    return false
  }

  private async restart(onRestart: (() => MaybePromise<void>) | undefined): Promise<void> {
    this.restarts++
    if (!onRestart || this.restarts > this.settings.attempts) {
      throw new ClientError('content_changed', 'The content has changed since the download began, or can not be resumed.')
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

/** Where the bytes of an answer begin and how many there are in all (RFC 9110 section 14.4). */
function partOf(response: Response, scope: Scope): Part {
  const { status, headers } = response
  if (status === 206) {
    const [, start, total] = /^bytes (\d{1,15})-\d{1,15}\/(\d{1,15}|\*)$/i.exec(headers.get('content-range') ?? '') ?? []
    if (start === undefined) discard(response, scope)
    if (start === undefined) throw new ClientError('bad_answer', 'The answer is a part, but does not say of what.', { status })
    return { start: Number(start), total: total === '*' ? undefined : Number(total) }
  }
  const length = headers.get('content-length')
  // The length of what is compressed is not that of what arrives here.
  const coded = (headers.get('content-encoding') ?? 'identity') !== 'identity'
  return { start: 0, total: length === null || coded ? undefined : Number(length) }
}

function strongTag(field: string | null): string | undefined {
  return field?.startsWith('"') ? field : undefined
}
