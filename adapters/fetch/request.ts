import { BaseRequest, pathUnder, splitTarget } from '../../src/http/request.js'
import { BindingBody, cutShort, READ_TWICE } from '../../src/http/body/source.js'
import type { HttpRequest, RequestHeaders } from '../../src/http/exchange.js'
import type { ContentDigest } from '../../src/http/headers/digests.js'
import { gather } from '../../src/runtime/text.js'

const NO_PARAMS: Readonly<Record<string, string>> = Object.freeze({})

/** Facts that your framework knows about one request. */
export interface FetchFacts<C> {
  /** The body as your framework parsed it. Used only if the body was read before. */
  readonly body?: unknown
  /** Becomes `request.context`. */
  readonly context?: C
  /** Start of the path under which this handler is mounted, as clients see it. */
  readonly mountPath?: string
  /** Path parameters of your framework's router, decoded. */
  readonly params?: Readonly<Record<string, string>>
  /** The address of the connected peer. */
  readonly peerAddress?: string
}

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
    request: Request, facts: FetchFacts<C>, makeContext: (request: Request) => C,
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

  get headers(): RequestHeaders { return this.madeHeaders ??= recordOf(this.raw.headers) }

  get params(): Readonly<Record<string, string>> { return this.facts.params ?? NO_PARAMS }

  get query(): URLSearchParams { return this.madeQuery ??= new URLSearchParams(this.search) }

  get signal(): AbortSignal { return this.raw.signal }

  get context(): C {
    this.madeContext ??= { value: this.facts.context ?? this.makeContext(this.raw) }
    return this.madeContext.value
  }

  get peerAddress(): string | undefined { return this.facts.peerAddress }
}

function recordOf(headers: Headers): RequestHeaders {
  const record = Object.create(null) as Record<string, string>
  for (const [name, value] of headers) record[name] = value
  return record
}

export class FetchBody extends BindingBody {
  private readonly request: Request
  private begun = false
  private stopped = false
  private reader: ReadableStreamDefaultReader<Uint8Array> | undefined

  constructor(request: Request, left: unknown) {
    super(left)
    this.request = request
  }

  async bytes(limit: number): Promise<Uint8Array | undefined> {
    const declared = this.wasRead ? null : this.request.headers.get('content-length')
    if (Number(declared) > limit) return undefined
    // The server checks that a body is not longer than declared, and some servers are faster at
    // this call.
    if (declared !== null && !this.begun) {
      const digest = this.digest()
      const bytes = await this.allAtOnce(limit)
      return bytes && digest ? digest.check(bytes) : bytes
    }
    return gather(this.stream(), limit)
  }

  /**
   * A reader that stops early only releases the stream. Under some servers, cancelling it would
   * close the connection before the response.
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
    if (this.wasRead) {
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
        const step = await reader.read().catch(() => { throw cutShort() })
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
    const header = headers.get('content-digest')
    if (header === null) return undefined
    return this.digestOf({
      'content-digest': header,
      'content-encoding': headers.get('content-encoding') ?? undefined,
      'content-length': headers.get('content-length') ?? undefined,
    })
  }

  private async allAtOnce(limit: number): Promise<Uint8Array | undefined> {
    this.begun = true
    const bytes = await this.request.arrayBuffer().catch(() => { throw cutShort() })
    return bytes.byteLength > limit ? undefined : new Uint8Array(bytes)
  }

  protected get wasRead(): boolean {
    return !this.begun && this.request.bodyUsed
  }
}
