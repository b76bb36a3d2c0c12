import type { BodySource, HttpRequest, RequestHeaders, ResponseHeaders } from './exchange.js'

/** Members that replace those of the original request. An absent member keeps its value. */
export interface RequestChanges<C> {
  /** Method and target of another request, for which this one is answered. */
  readonly target?: {
    readonly method: string
    readonly path: string
    readonly search: string
  }
  readonly params?: Readonly<Record<string, string>>
  readonly mountPath?: string
  readonly version?: string
  readonly headers?: RequestHeaders
  readonly body?: BodySource
  /** Creates the signal. Called once, when the signal is first read. */
  readonly signal?: () => AbortSignal
  /** Wrapped, so that `undefined` is a possible context. */
  readonly context?: { readonly value: C }
}

/**
 * A request that differs from another one in some members. Reads all other members from the
 * original when they are needed. A copy would run lazy getters, and a prototype would lose private
 * fields.
 */
export class DerivedRequest<C> implements HttpRequest<C> {
  readonly #request: HttpRequest<unknown>
  readonly #changes: RequestChanges<C>
  #signal: AbortSignal | undefined
  #query: URLSearchParams | undefined

  constructor(request: HttpRequest<unknown>, changes: RequestChanges<C>) {
    this.#request = request
    this.#changes = changes
  }

  /** Returns the binding's request, which all derived requests start from. */
  static root(request: HttpRequest<unknown>): HttpRequest<unknown> {
    let root = request
    while (root instanceof DerivedRequest) root = (root as DerivedRequest<unknown>).#request
    return root
  }

  get method(): string {
    return this.#changes.target?.method ?? this.#request.method
  }
  get path(): string {
    return this.#changes.target?.path ?? this.#request.path
  }
  get mountPath(): string {
    return this.#changes.mountPath ?? this.#request.mountPath
  }
  get params(): Readonly<Record<string, string>> {
    return this.#changes.params ?? this.#request.params
  }
  get version(): string | undefined {
    return this.#changes.version ?? this.#request.version
  }
  get query(): URLSearchParams {
    const { target } = this.#changes
    if (target === undefined) return this.#request.query
    return (this.#query ??= new URLSearchParams(target.search))
  }
  get search(): string | undefined {
    return this.#changes.target?.search ?? this.#request.search
  }
  get headers(): RequestHeaders {
    return this.#changes.headers ?? this.#request.headers
  }
  get body(): BodySource {
    return this.#changes.body ?? this.#request.body
  }
  get signal(): AbortSignal {
    return (this.#signal ??= this.#changes.signal?.() ?? this.#request.signal)
  }
  get gone(): boolean | undefined {
    return this.#signal || this.#changes.signal ? this.signal.aborted : this.#request.gone
  }
  get context(): C {
    return (this.#changes.context ?? { value: this.#request.context as C }).value
  }
  get peerAddress(): string | undefined {
    return this.#request.peerAddress
  }
  get raw(): unknown {
    return this.#request.raw
  }

  inform(status: number, headers: ResponseHeaders): void {
    this.#request.inform?.(status, headers)
  }

  /**
   * Returns this request with another context. Wraps the original request rather than this one,
   * unless this one creates a signal. This keeps chains short.
   */
  withContext(value: C): DerivedRequest<C> {
    const { signal } = this.#changes
    return signal === undefined
      ? new DerivedRequest<C>(
        this.#request,
        Object.assign({}, this.#changes, { context: { value } }),
      )
      : new DerivedRequest<C>(this, { context: { value } })
  }
}

/**
 * Returns the request with more members in its context. Policies use it to pass values to the
 * handlers behind them.
 */
export function withContext<C>(request: HttpRequest<C>, more: object): HttpRequest<C> {
  const value: C = Object.assign({}, request.context, more)
  return request instanceof DerivedRequest
    ? request.withContext(value)
    : new DerivedRequest<C>(request, { context: { value } })
}

/** Request ids. Keyed by the binding's request, because the error boundary sees only that one. */
const requestIds = new WeakMap<object, string>()

/** Stores the id of a request. */
export function setRequestId(request: HttpRequest, id: string): void {
  requestIds.set(DerivedRequest.root(request), id)
}

/** Returns the id of a request, or `undefined` if the `requestId` policy has not run. */
export function getRequestId(request: HttpRequest<unknown>): string | undefined {
  return requestIds.get(DerivedRequest.root(request))
}
