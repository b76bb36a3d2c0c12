import type { MaybePromise } from '../runtime/maybe-promise.js'

/** Request headers as Node gives them: lower-case names, repeated headers joined or listed. */
export type RequestHeaders = Readonly<Record<string, string | string[] | undefined>>

/** Response headers with lower-case names. An array is sent as several lines. */
export type ResponseHeaders = Record<string, string | string[]>

export type ResponseBody = string | Uint8Array | AsyncIterable<Uint8Array | string>

/**
 * Body of a request, read when a method is called, once. Handlers use `readBytes` and `readJson`.
 */
export interface BodySource {
  /** Value from your framework's body parser, wrapped so that `undefined` is a possible value. */
  readonly parsed: { readonly value: unknown } | undefined
  /** Resolves to all bytes as sent; to `undefined` if there are more than `limit`. */
  bytes(limit: number): Promise<Uint8Array | undefined>
  /**
   * Returns the bytes as sent, as they arrive, with backpressure.
   * @param isWhole - `true` if the reader collects all of them, so that `timeouts` limits their
   * time
   */
  stream(isWhole?: boolean): AsyncIterable<Uint8Array>
  /** Makes a running `stream()` that waits for the client reject with `incomplete_body`. */
  stop?(): void
}

/** Properties of a request that `with` replaces. An absent property keeps its value. */
export interface RequestChanges<C = unknown> {
  readonly method?: string
  readonly path?: string
  readonly search?: string
  readonly headers?: RequestHeaders
  readonly body?: BodySource
  readonly context?: C
  readonly params?: Readonly<Record<string, string>>
  readonly mountPath?: string
  readonly version?: string
  /** Creates the signal. Called once, when the signal is first read. */
  readonly signal?: () => AbortSignal
}

/**
 * One request as a value. Its properties are created when they are read, so a copy such as `{
 * ...request }` lacks them. Use `with`.
 */
export interface HttpRequest<C = unknown> {
  /** Upper-case method, as sent. */
  readonly method: string
  /** The path as the client sent it, mount path included, percent-encoded, without the query. */
  readonly path: string
  /** Part of `path` under which this handler is mounted. `''` at the root; never ends in `/`. */
  readonly mountPath: string
  /** Path parameters of the router, percent-decoded. */
  readonly params: Readonly<Record<string, string>>
  /** Query parameters, parsed on first access. */
  readonly query: URLSearchParams
  /**
   * Query as sent: `''`, or a string that starts with `?`. Absent if the binding does not know it.
   */
  readonly search?: string | undefined
  readonly headers: RequestHeaders
  readonly body: BodySource
  /** Aborts if the client disconnects before the response is complete. Created on first access. */
  readonly signal: AbortSignal
  /**
   * True if `signal` is aborted. Reading this creates no signal. Absent if the binding does not
   * know.
   */
  readonly gone?: boolean | undefined
  /** Version that `versions` selected, as your code wrote it. Absent without `versions`. */
  readonly version?: string | undefined
  /** Values that your framework and policies have added, such as user, tenant and request id. */
  readonly context: C
  /** Address of the connected peer, if it is known. Forwarding headers are not read. */
  readonly peerAddress: string | undefined
  /** Request and response objects of your framework. */
  readonly raw: unknown
  /**
   * Sends an informational response (RFC 9110 section 15.2), such as 104, before the final one, if
   * the client can take it. Absent if the binding cannot send one.
   */
  inform?(status: number, headers: ResponseHeaders): void
  /**
   * Returns this request with some properties replaced, for `next` or another handler.
   * @example
   * const tenant: Policy = (request, next) => next(request.with({
   *   headers: { ...request.headers, 'x-tenant': 'acme' },
   * }))
   * @throws {TypeError} A name is unknown.
   */
  with<D>(changes: RequestChanges<D> & { readonly context: D }): HttpRequest<D>
  /** Returns this request with some properties replaced. Its context has the same type. */
  with(changes: RequestChanges<C>): HttpRequest<C>
}

/** One response as a value. */
export interface HttpResponse {
  status: number
  headers: ResponseHeaders
  body?: ResponseBody
}

/** Description of a handler: one OpenAPI 3.1 operation for a method and a path template. */
export interface Operation {
  /** Upper-case method. */
  readonly method: string
  /** Path template such as `/api/status/{id}`, without the mount path, if it is known. */
  readonly path?: string
  /** First path segment, such as `v1`, if it selects this operation. See `byPath()`. */
  readonly versionSegment?: string
  /** The OpenAPI 3.1 operation object. */
  readonly openapi: Readonly<Record<string, unknown>>
  /** Security schemes that the `security` property names, as OpenAPI objects. */
  readonly securitySchemes?: Readonly<Record<string, Readonly<Record<string, unknown>>>>
}

/** A function from a request to a response. `undefined` declines the request. */
export interface Handler<C = unknown> {
  (request: HttpRequest<C>): MaybePromise<HttpResponse | undefined>
  /** Operations of the handler, for `openapi()`. */
  readonly operations?: readonly Operation[]
  /** Places of the policies around the handler, outermost first. Set by `compose`. */
  readonly places?: readonly PolicyPlace[]
}

/**
 * A rule around handlers. It responds itself, or calls `next` and may change the response. `C` is
 * the context that it reads; it passes the whole context on.
 */
export interface Policy<C = unknown> {
  (request: HttpRequest<C>, next: NextHandler<NoInfer<C>>): MaybePromise<HttpResponse | undefined>
  /** Position among other policies. A policy without a place fits everywhere. */
  readonly place?: PolicyPlace
  /**
   * Adds to the descriptions of the handlers behind it: error responses and security requirements.
   */
  readonly describe?: (operation: Operation) => Operation
}

/**
 * The handler behind a policy. Typed as a method, because TypeScript compares parameters of methods
 * in both directions: so a policy fits in front of a handler that reads more of the context.
 */
export type NextHandler<C> =
  & {
    /** Calls the next handler. */
    handle(request: HttpRequest<C>): ReturnType<Handler<C>>
  }['handle']
  & Pick<Handler, 'operations' | 'places'>

export interface PolicyPlace {
  readonly name: string
  /** Policies that have to stand before this one if they are present, each with the reason. */
  readonly behind?: Readonly<Record<string, string>>
  /**
   * Set if the policy needs more than the request head. `waits`: runs until the response head is
   * sent. `cuts`: interrupts the run or the body, so it needs a handler of longhaul.
   */
  readonly wholeRun?: 'waits' | 'cuts'
}

/**
 * Returns `handler` with the description that `openapi()` reads.
 * @example
 * const responses = { 200: response('The server is up') }
 * describe(() => json(200, {}), [operation('GET', { summary: 'Check the server', responses })])
 */
export function describe<C>(handler: Handler<C>, operations: readonly Operation[]): Handler<C> {
  const described = (request: HttpRequest<C>, extra?: unknown) => {
    checkCall(request, extra)
    return handler(request)
  }
  return Object.assign(described, { operations })
}

/**
 * Wraps a handler in policies. The first policy sees the request first and the response last. Keeps
 * the description of the handler. The recommended order, of which most applications need a part:
 *
 * `requestId`, `cors`, `crossSite`, `limitHeaders`, `rateLimit` by address, `authenticate`,
 * `rateLimit` by principal, `authorize`, `limitBody`, `timeouts`, `limitConcurrency`, `versions` or
 * `deprecated`, `idempotent`, the handler.
 * @example
 * const handler = compose(requestId(), authenticate({ schemes }), endpoints.submit(report))
 * @throws {TypeError} The order would not work, or a part is not a function. Policies inside a
 * composed handler count too.
 */
export function compose<C>(...parts: [...policies: Policy<C>[], handler: Handler<C>]): Handler<C> {
  if (parts.length === 0) throw new TypeError('compose: pass policies and, last, a handler')
  parts.forEach((part: unknown, at) => {
    if (typeof part === 'function') return
    const advice = Array.isArray(part)
      ? 'an array; spread it: compose(...policies, handler)'
      : `not a function${backgroundAdvice(part)}`
    throw new TypeError(
      `compose takes policies and, last, a handler; argument ${at + 1} is ${advice}`
    )
  })
  const handler = parts[parts.length - 1] as Handler<C>
  const policies = parts.slice(0, -1) as Policy<C>[]
  if (policies.length === 0) return handler
  const places = [...policies.flatMap(({ place }) => place ?? []), ...handler.places ?? []]
  checkOrder(places)
  const wrapped = policies.reduceRight<Handler<C>>(
    (next, policy) => (request, extra?: unknown) => {
      checkCall(request, extra)
      return policy(request, next)
    },
    handler.operations ? handler : checked(handler),
  )
  const operations = handler.operations?.map((operation) =>
    policies.reduceRight(
      (described, policy) => policy.describe?.(described) ?? described, operation,
    ),
  )
  return Object.assign(wrapped, {
    ...(operations && { operations }),
    ...(places.length > 0 && { places }),
  })
}

function checked<C>(handler: Handler<C>): Handler<C> {
  return (request) => {
    checkCall(request)
    return handler(request)
  }
}

/** @throws {TypeError} `handler` is not a function. */
export function checkHandler(handler: unknown): void {
  if (typeof handler === 'function') return
  const advice = 'Pass a handler, such as submit(report) or status of taskEndpoints'
  const given = handler === null ? 'null' : typeof handler
  throw new TypeError(`${advice}, not ${given}${backgroundAdvice(handler)}`)
}

/**
 * Returns the end of an error message for the object that `bulkCreate` with `background` returns:
 * what to pass instead.
 */
export function backgroundAdvice(given: unknown): string {
  const { handler } = (given ?? {}) as { readonly handler?: unknown }
  return typeof handler === 'function' ? '; an endpoint with background has its handler in .handler(endpoints)' : ''
}

function checkOrder(places: readonly PolicyPlace[]): void {
  places.forEach(({ name, behind = {} }, at) => {
    for (const { name: later } of places.slice(at + 1)) {
      const why = behind[later]
      if (why !== undefined) {
        throw new TypeError(
          `compose: ${name} stands before ${later}, but ${why}; put ${later} first`,
        )
      }
    }
  })
}

/**
 * Key of a property of each request of longhaul's bindings, whose value is the request itself. It
 * reveals copies and proxies.
 */
export const ITSELF = Symbol.for('longhaul.request')

/**
 * Throws if a handler is called with something else than a request of a binding, such as a copy.
 * @param extra - second argument: the response of Express or Fastify, or the next handler
 */
export function checkCall(request: object, extra?: unknown): void {
  if (typeof extra === 'object') throw new TypeError(NOT_BOUND)
  const { [ITSELF]: itself } = request as { readonly [ITSELF]?: unknown }
  if (itself === request) return
  // A request that is not ours may come from a binding of the application.
  if (itself === undefined && 'with' in request) return
  throw new TypeError(COPY)
}

const WRAP = 'toNode(handler) in Express and Connect, toFastify(handler) in Fastify, toKoa(handler) in Koa,'
  + ' toFetch(handler) in Hono'
const NOT_BOUND = `A handler of longhaul was mounted without a binding. Wrap it: ${WRAP}`
const COPY = 'A handler of longhaul got a request that no binding has made. If it is a copy, such as'
  + ' { ...request, headers }, pass request.with({ headers }) instead. If it is the request of a'
  + ` framework, wrap the handler: ${WRAP}`
