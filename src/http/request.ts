import { checkNames } from '../runtime/option-names.js'
import {
  type BodySource, type HttpRequest, type RequestChanges, type RequestHeaders,
  type ResponseHeaders, ITSELF,
} from './exchange.js'

const KNOWN = {
  method: 0, path: 0, search: 0, headers: 0, body: 0, context: 0, params: 0, mountPath: 0, version: 0,
  signal: 0,
} satisfies Record<keyof RequestChanges, 0>

export abstract class BaseRequest {
  readonly [ITSELF]: unknown = this

  with<D>(this: HttpRequest<unknown>, changes: RequestChanges<D>): HttpRequest<D> {
    checkNames('request.with', changes, KNOWN)
    return new DerivedRequest<D>(this, changes)
  }
}

export function plainRequest<C>(members: Omit<HttpRequest<C>, 'with'>): HttpRequest<C> {
  return Object.assign(new PlainRequest(), members)
}

class PlainRequest extends BaseRequest {}

/**
 * A request that differs from another request in some properties. All other properties are read
 * from that request: a copy would run lazy getters, and a prototype would lose private fields.
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

  static root(request: HttpRequest<unknown>): HttpRequest<unknown> {
    let root = request
    while (root instanceof DerivedRequest) root = (root as DerivedRequest<unknown>).#request
    return root
  }

  get method(): string { return this.#changes.method ?? this.#request.method }
  get path(): string { return this.#changes.path ?? this.#request.path }
  get mountPath(): string { return this.#changes.mountPath ?? this.#request.mountPath }
  get params(): Readonly<Record<string, string>> {
    return this.#changes.params ?? this.#request.params
  }
  get version(): string | undefined { return this.#changes.version ?? this.#request.version }
  get query(): URLSearchParams {
    const { search } = this.#changes
    if (search === undefined) return this.#request.query
    return (this.#query ??= new URLSearchParams(search))
  }
  get search(): string | undefined { return this.#changes.search ?? this.#request.search }
  get headers(): RequestHeaders { return this.#changes.headers ?? this.#request.headers }
  get body(): BodySource { return this.#changes.body ?? this.#request.body }
  get signal(): AbortSignal {
    return (this.#signal ??= this.#changes.signal?.() ?? this.#request.signal)
  }
  get gone(): boolean | undefined {
    return this.#signal || this.#changes.signal ? this.signal.aborted : this.#request.gone
  }
  get context(): C {
    return 'context' in this.#changes ? this.#changes.context : this.#request.context as C
  }
  get peerAddress(): string | undefined { return this.#request.peerAddress }
  get raw(): unknown { return this.#request.raw }

  inform(status: number, headers: ResponseHeaders): void {
    this.#request.inform?.(status, headers)
  }

  /**
   * Derives from the original request rather than from this request, unless this request creates a
   * signal.
   */
  override with<D>(changes: RequestChanges<D>): HttpRequest<D> {
    checkNames('request.with', changes, KNOWN)
    return this.#changes.signal === undefined
      ? new DerivedRequest<D>(this.#request, Object.assign({}, this.#changes, changes))
      : new DerivedRequest<D>(this, changes)
  }
}

export function withContext<C>(request: HttpRequest<C>, more: object): HttpRequest<C> {
  return request.with({ context: Object.assign({}, request.context, more) })
}

/** Request ids by the request of the binding, because the error boundary sees only that request. */
const requestIds = new WeakMap<object, string>()

export function setRequestId(request: HttpRequest, id: string): void {
  requestIds.set(DerivedRequest.root(request), id)
}

export function getRequestId(request: HttpRequest<unknown>): string | undefined {
  return requestIds.get(DerivedRequest.root(request))
}

/** Sets the caller on the binding's request. The binding counts unread response bytes for it. */
export function setCaller(request: HttpRequest<unknown>, caller: string): void {
  const root = DerivedRequest.root(request) as { caller?: string }
  if ('caller' in root) root.caller = caller
}

const SLASH = 0x2f

/**
 * Splits a request target, in origin form (RFC 9112 section 3.2) or absolute form, into path and
 * query, both percent-encoded. The query is `''` or starts with `?`. Much faster than `new URL`.
 */
export function splitTarget(target: string): { path: string; search: string } {
  let origin = target
  const scheme = target.charCodeAt(0) === SLASH ? -1 : target.indexOf('://')
  if (scheme >= 0) {
    const rest = target.slice(scheme + 3)
    const start = rest.search(/[/?]/)
    if (start < 0) origin = '/'
    else origin = rest.charCodeAt(start) === SLASH ? rest.slice(start) : `/${rest.slice(start)}`
  }
  const mark = origin.indexOf('?')
  return mark < 0
    ? { path: origin, search: '' }
    : { path: origin.slice(0, mark), search: origin.slice(mark) }
}

/**
 * Returns a mount path as `''`, or `/…` without a trailing slash.
 * @throws {TypeError} The path does not start with `/`.
 */
export function cleanMountPath(mountPath: string): string {
  let end = mountPath.length
  while (end > 0 && mountPath.charCodeAt(end - 1) === SLASH) end--
  const clean = mountPath.slice(0, end)
  if (clean !== '' && clean.charCodeAt(0) !== SLASH) {
    throw new TypeError(
      `mountPath has to start with "/", and "${mountPath}" does not: write "/${mountPath}"`,
    )
  }
  return clean
}

function isUnder(path: string, mountPath: string): boolean {
  return (
    path.startsWith(mountPath) &&
    (path.length === mountPath.length || path.charCodeAt(mountPath.length) === SLASH)
  )
}

/** Returns the path with the prefix that a proxy or router (`hostMount`) removed. */
export function pathUnder(mountPath: string, path: string, hostMount: string): string {
  if (hostMount === '' && isUnder(path, mountPath)) return path
  return mountPath + path.slice(hostMount.length)
}

const BACKSLASH = /\\/g

/**
 * Returns a path as a reference for `Location` and `Link` (RFC 3986 section 4.2). Clients read `//`
 * at its start as another host, and `\` as `/`.
 */
export function toReference(path: string): string {
  if (path.charCodeAt(1) !== SLASH && !path.includes('\\')) return path
  const escaped = path.replace(BACKSLASH, '%5C')
  return escaped.startsWith('//') ? `/.${escaped}` : escaped
}

type HostMember = 'user' | 'principal'

/**
 * Arguments after the handler in a binding, or after the request in a handler that a binding made.
 * They are optional if the default context, with the properties `Given`, is enough for the handler.
 */
export type ContextArguments<C, Argument extends object, Given extends string = HostMember> =
  object extends Omit<C, Given>
    ? [options?: Argument]
    : [optionsWithContext: Argument & WithContext<Argument>]

export type WithContext<Argument extends object> = {
  readonly [K in keyof Argument as K extends 'context' ? K : never]-?: NonNullable<Argument[K]>
}
