import { BaseRequest } from '../../src/http/derived-request.js'
import type { HttpRequest, RequestHeaders } from '../../src/http/exchange.js'
import { pathUnder, splitTarget } from '../../src/http/target.js'
import { FetchBody } from './body.js'
import { recordOf } from './headers.js'

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
