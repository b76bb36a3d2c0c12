import type { BodySource, HttpRequest, RequestHeaders } from './exchange.js'

/** What a derived request says instead of the one underneath. */
export interface RequestChanges<C> {
  readonly params?: Readonly<Record<string, string>>
  readonly mountPath?: string
  readonly headers?: RequestHeaders
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

  constructor(request: HttpRequest<unknown>, changes: RequestChanges<C>) {
    this.#request = request
    this.#changes = changes
  }

  get method(): string { return this.#request.method }
  get path(): string { return this.#request.path }
  get mountPath(): string { return this.#changes.mountPath ?? this.#request.mountPath }
  get params(): Readonly<Record<string, string>> { return this.#changes.params ?? this.#request.params }
  get query(): URLSearchParams { return this.#request.query }
  get headers(): RequestHeaders { return this.#changes.headers ?? this.#request.headers }
  get body(): BodySource { return this.#request.body }
  get signal(): AbortSignal { return this.#request.signal }
  get context(): C { return (this.#changes.context ?? { value: this.#request.context as C }).value }
  get peerAddress(): string | undefined { return this.#request.peerAddress }
  get raw(): unknown { return this.#request.raw }
}
