import type { BodySource, HttpRequest, RequestHeaders } from '../http/exchange.js'

/**
 * A request with other path parameters. All else is asked of the request underneath, when it is
 * asked for: copying would run its lazy getters, and a prototype would lose its private fields.
 */
export class RoutedRequest<C> implements HttpRequest<C> {
  readonly params: Readonly<Record<string, string>>
  readonly #request: HttpRequest<C>

  constructor(request: HttpRequest<C>, params: Readonly<Record<string, string>>) {
    this.#request = request
    this.params = params
  }

  get method(): string { return this.#request.method }
  get path(): string { return this.#request.path }
  get mountPath(): string { return this.#request.mountPath }
  get query(): URLSearchParams { return this.#request.query }
  get headers(): RequestHeaders { return this.#request.headers }
  get body(): BodySource { return this.#request.body }
  get signal(): AbortSignal { return this.#request.signal }
  get context(): C { return this.#request.context }
  get peerAddress(): string | undefined { return this.#request.peerAddress }
  get raw(): unknown { return this.#request.raw }
}
