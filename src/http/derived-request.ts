import { checkNames } from '../runtime/option-names.js'
import type {
  BodySource, HttpRequest, RequestChanges, RequestHeaders, ResponseHeaders,
} from './exchange.js'
import { ITSELF } from './not-bound.js'

const KNOWN = {
  method: 0, path: 0, search: 0, headers: 0, body: 0, context: 0, params: 0, mountPath: 0, version: 0,
  signal: 0,
} satisfies Record<keyof RequestChanges, 0>

/** Members that the requests of all bindings share. */
export abstract class BaseRequest {
  readonly [ITSELF]: unknown = this

  with<D>(this: HttpRequest<unknown>, changes: RequestChanges<D>): HttpRequest<D> {
    checkNames('request.with', changes, KNOWN)
    return new DerivedRequest<D>(this, changes)
  }
}

/** Returns a request whose members are all there from the start. */
export function plainRequest<C>(members: Omit<HttpRequest<C>, 'with'>): HttpRequest<C> {
  return Object.assign(new PlainRequest(), members)
}

class PlainRequest extends BaseRequest {}

/**
 * A request that differs from another one in some members. Reads all other members from the
 * original when they are needed. A copy would run lazy getters, and a prototype would lose private
 * fields.
 */
export class DerivedRequest<C> extends BaseRequest implements HttpRequest<C> {
  readonly #request: HttpRequest<unknown>
  readonly #changes: RequestChanges<C>
  #signal: AbortSignal | undefined
  #query: URLSearchParams | undefined

  constructor(request: HttpRequest<unknown>, changes: RequestChanges<C>) {
    super()
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
    return this.#changes.method ?? this.#request.method
  }
  get path(): string {
    return this.#changes.path ?? this.#request.path
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
    const { search } = this.#changes
    if (search === undefined) return this.#request.query
    return (this.#query ??= new URLSearchParams(search))
  }
  get search(): string | undefined {
    return this.#changes.search ?? this.#request.search
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
    return 'context' in this.#changes ? this.#changes.context : this.#request.context as C
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
   * Changes the original request rather than this one, unless this one creates a signal. This keeps
   * chains short.
   */
  override with<D>(changes: RequestChanges<D>): HttpRequest<D> {
    checkNames('request.with', changes, KNOWN)
    return this.#changes.signal === undefined
      ? new DerivedRequest<D>(this.#request, Object.assign({}, this.#changes, changes))
      : new DerivedRequest<D>(this, changes)
  }
}

/**
 * Returns the request with more members in its context. Policies use it to pass values to the
 * handlers behind them.
 */
export function withContext<C>(request: HttpRequest<C>, more: object): HttpRequest<C> {
  return request.with({ context: Object.assign({}, request.context, more) })
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
