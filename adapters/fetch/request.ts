import { BaseRequest, pathUnder, splitTarget } from '../../src/http/request.js'
import type { HttpRequest, RequestHeaders, BodySource } from '../../src/http/exchange.js'
import { recordOf } from './response.js'
import { ContentDigest } from '../../src/http/fields/digests.js'
import { httpError, type HttpError } from '../../src/http/errors.js'
import { Gathered } from '../../src/runtime/text.js'

const NO_PARAMS: Readonly<Record<string, string>> = Object.freeze({})

/** Facts of the host about one request, beside the request itself. */
export interface FetchFacts<C> {
  /** The body as the host parsed it. Used only if the host has read the body. */
  readonly body?: unknown
  /** Becomes `request.context`. */
  readonly context?: C
  /** The front of the path under which this handler is mounted, as clients see it. */
  readonly mountPath?: string
  /** Path parameters of the host's router, decoded. */
  readonly params?: Readonly<Record<string, string>>
  /** The address of the connected peer. */
  readonly peerAddress?: string
}

/** One fetch `Request` as a handler sees it. */
export class FetchRequest<C> extends BaseRequest implements HttpRequest<C> {
  readonly raw: Request
  readonly method: string
  readonly path: string
  readonly mountPath: string
  readonly search: string
  readonly body: FetchBody
  private readonly facts: FetchFacts<C>
  private readonly makeContext: (request: Request) => C
  private madeHeaders: RequestHeaders | undefined
  private madeQuery: URLSearchParams | undefined
  private madeContext: { readonly value: C } | undefined

  constructor(
    request: Request,
    facts: FetchFacts<C>,
    makeContext: (request: Request) => C,
    mountPath: string | undefined,
  ) {
    super()
    this.raw = request
    this.method = request.method
    this.facts = facts
    this.makeContext = makeContext
    const fragment = request.url.indexOf('#')
    const { path, search } = splitTarget(
      fragment < 0 ? request.url : request.url.slice(0, fragment)
    )
    this.path = mountPath === undefined ? path : pathUnder(mountPath, path, '')
    this.mountPath = mountPath ?? ''
    this.search = search
    this.body = new FetchBody(request, facts.body)
  }

  get headers(): RequestHeaders {
    return this.madeHeaders ??= recordOf(this.raw.headers)
  }

  get params(): Readonly<Record<string, string>> {
    return this.facts.params ?? NO_PARAMS
  }

  get query(): URLSearchParams {
    return this.madeQuery ??= new URLSearchParams(this.search)
  }

  get signal(): AbortSignal {
    return this.raw.signal
  }

  get context(): C {
    this.madeContext ??= { value: this.facts.context ?? this.makeContext(this.raw) }
    return this.madeContext.value
  }

  get peerAddress(): string | undefined {
    return this.facts.peerAddress
  }
}

const NOTHING = new Uint8Array(0)

const READ_BEFORE = 'The body of this request was read before longhaul saw it, and nothing of it is left. '
  + 'Call the handler before the body is read, or hand over what was made of it: handle(request, { body })'

const READ_TWICE = 'The body of this request was asked for twice; it can be read only once'

/** The body of one fetch `Request`. */
export class FetchBody implements BodySource {
  private readonly request: Request
  private readonly left: unknown
  private begun = false
  private stopped = false
  private reader: ReadableStreamDefaultReader<Uint8Array> | undefined

  constructor(request: Request, left: unknown) {
    this.request = request
    this.left = left
  }

  /**
   * The body as the host parsed it, if the host has read it. Where that is text or bytes,
   * `bytes` and `stream` give it too.
   */
  get parsed(): { readonly value: unknown } | undefined {
    return this.readByHost && this.left !== undefined ? { value: this.left } : undefined
  }

  async bytes(limit: number): Promise<Uint8Array | undefined> {
    const declared = this.readByHost ? null : this.request.headers.get('content-length')
    if (Number(declared) > limit) return undefined
    // The server sees to it that a body is not longer than declared. Some have a short way for this
    // call.
    if (declared !== null && !this.begun) {
      const digest = this.digest()
      const bytes = await this.allAtOnce(limit)
      return bytes && digest ? digest.check(bytes) : bytes
    }
    let first: Uint8Array | undefined
    let more: Gathered | undefined
    for await (const chunk of this.stream()) {
      if ((more?.size ?? first?.byteLength ?? 0) + chunk.byteLength > limit) return undefined
      if (first === undefined) first = chunk
      else {
        if (more === undefined) {
          more = new Gathered()
          more.add(first)
        }
        more.add(chunk)
      }
    }
    return more?.bytes ?? first ?? NOTHING
  }

  /**
   * Leaving early only lets go of the stream. What becomes of the rest is the server's decision: to
   * cancel would cut the connection under some, and the answer with it.
   */
  stream(): AsyncGenerator<Uint8Array> {
    const digest = this.digest()
    return digest === undefined ? this.pieces() : digest.checked(this.pieces())
  }

  stop(): void {
    this.stopped = true
    this.reader?.cancel().catch(() => undefined)
  }

  private async * pieces(): AsyncGenerator<Uint8Array> {
    if (this.readByHost) {
      yield this.leftBytes()
      return
    }
    if (this.begun) throw new Error(READ_TWICE)
    this.begun = true
    if (this.request.body === null) return
    const reader = this.request.body.getReader() as ReadableStreamDefaultReader<Uint8Array>
    this.reader = reader
    try {
      for (;;) {
        const step = await read(reader)
        if (this.stopped) throw cutShort()
        if (step.done) return
        yield step.value
      }
    } finally {
      reader.releaseLock()
    }
  }

  private digest(): ContentDigest | undefined {
    const { headers } = this.request
    const field = headers.get('content-digest')
    if (field === null) return undefined
    const coding = headers.get('content-encoding') ?? undefined
    const fields = { 'content-digest': field, 'content-encoding': coding }
    return this.readByHost ? ContentDigest.ofParsed(fields) : ContentDigest.of(fields)
  }

  private async allAtOnce(limit: number): Promise<Uint8Array | undefined> {
    this.begun = true
    try {
      const bytes = new Uint8Array(await this.request.arrayBuffer())
      return bytes.byteLength > limit ? undefined : bytes
    } catch {
      throw cutShort()
    }
  }

  private get readByHost(): boolean {
    return !this.begun && this.request.bodyUsed
  }

  private leftBytes(): Uint8Array {
    const bytes = bytesOf(this.left)
    if (bytes === undefined) throw new Error(READ_BEFORE)
    return bytes
  }
}

async function read(
  reader: ReadableStreamDefaultReader<Uint8Array>,
): Promise<{ done: true } | { done: false, value: Uint8Array }> {
  try {
    const { done, value } = await reader.read()
    return value === undefined || done ? { done: true } : { done: false, value }
  } catch {
    throw cutShort()
  }
}

/** Without a cause, since an error with one is reported, and a client that goes away is no news. */
function cutShort(): HttpError {
  return httpError('incomplete_body')
}

function bytesOf(value: unknown): Uint8Array | undefined {
  if (typeof value === 'string') return new TextEncoder().encode(value)
  if (value instanceof ArrayBuffer) return new Uint8Array(value)
  return ArrayBuffer.isView(value)
    ? new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
    : undefined
}
