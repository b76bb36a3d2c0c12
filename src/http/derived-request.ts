import type { BodySource, HttpRequest, RequestHeaders } from './exchange.js'

/**
 * What a derived request says instead of the one underneath. What is absent stays as it is there.
 */
export interface RequestChanges<C> {
  readonly params?: Readonly<Record<string, string>>
  readonly mountPath?: string
  readonly version?: string
  readonly headers?: RequestHeaders
  readonly body?: BodySource
  /** Called once, when the signal is first asked for. */
  readonly signal?: () => AbortSignal
  /** In a box, so that `undefined` is a context too. */
  readonly context?: { readonly value: C }
}

/**
 * A request that differs in some members. All else is asked of the request underneath, when it is
 * asked for: copying would run its lazy getters, and a prototype would lose its private fields.
 */
export class DerivedRequest<C> implements HttpRequest<C> {
  readonly #request: HttpRequest<unknown>
  readonly #changes: RequestChanges<C>
  #signal: AbortSignal | undefined

  constructor(request: HttpRequest<unknown>, changes: RequestChanges<C>) {
    this.#request = request
    this.#changes = changes
  }

  /** The request underneath all derived ones: the binding's. */
  static root(request: HttpRequest<unknown>): HttpRequest<unknown> {
    let root = request
    while (root instanceof DerivedRequest) root = (root as DerivedRequest<unknown>).#request
    return root
  }

  get method(): string { return this.#request.method }
  get path(): string { return this.#request.path }
  get mountPath(): string { return this.#changes.mountPath ?? this.#request.mountPath }
  get params(): Readonly<Record<string, string>> { return this.#changes.params ?? this.#request.params }
  get version(): string | undefined { return this.#changes.version ?? this.#request.version }
  get query(): URLSearchParams { return this.#request.query }
  get search(): string | undefined { return this.#request.search }
  get headers(): RequestHeaders { return this.#changes.headers ?? this.#request.headers }
  get body(): BodySource { return this.#changes.body ?? this.#request.body }
  get signal(): AbortSignal { return this.#signal ??= this.#changes.signal?.() ?? this.#request.signal }
  get gone(): boolean | undefined { return this.#signal || this.#changes.signal ? this.signal.aborted : this.#request.gone }
  get context(): C { return (this.#changes.context ?? { value: this.#request.context as C }).value }
  get peerAddress(): string | undefined { return this.#request.peerAddress }
  get raw(): unknown { return this.#request.raw }

  /**
   * The same with another context. Beside the one before it, not on top, unless a signal is made
   * there: the fewer in a row the better.
   */
  withContext(value: C): DerivedRequest<C> {
    const { signal } = this.#changes
    return signal === undefined
      ? new DerivedRequest<C>(this.#request, Object.assign({}, this.#changes, { context: { value } }))
      : new DerivedRequest<C>(this, { context: { value } })
  }
}

/**
 * The same request with more in its context: for policies that tell those behind them something.
 */
export function withContext<C>(request: HttpRequest<C>, more: object): HttpRequest<C> {
  const value: C = Object.assign({}, request.context, more)
  return request instanceof DerivedRequest ? request.withContext(value) : new DerivedRequest<C>(request, { context: { value } })
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
