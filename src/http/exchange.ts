import type { MaybePromise } from '../runtime/maybe-promise.js'

/** Request headers as Node gives them: lower-case names, repeated fields joined or listed. */
export type RequestHeaders = Readonly<Record<string, string | string[] | undefined>>

/** Response headers with lower-case names. An array is sent as several field lines. */
export type ResponseHeaders = Record<string, string | string[]>

/** Body of a response. The binding sets `Content-Length` for text and bytes. */
export type ResponseBody = string | Uint8Array | AsyncIterable<Uint8Array | string>

/**
 * Body of a request. Nothing is read from the connection until a method is called. The body can be
 * read once. Handlers use `readBytes` and `readJson`.
 */
export interface BodySource {
  /** Value from your framework's body parser, wrapped so that `undefined` is a possible value. */
  readonly parsed: { readonly value: unknown } | undefined
  /**
   * Resolves to all bytes as sent, content codings included. Resolves to `undefined` and stops
   * reading if there are more than `limit`. Rejects if the client disconnects.
   */
  bytes(limit: number): Promise<Uint8Array | undefined>
  /**
   * Returns the bytes as they arrive, content codings included, with backpressure. For bodies
   * larger than memory.
   * @param isWhole - `true` if the reader collects all of the body. `timeouts` then limits the time
   * of the whole body
   */
  stream(isWhole?: boolean): AsyncIterable<Uint8Array>
  /**
   * Ends a running `stream()` that waits for the client: it rejects with `incomplete_body`. Absent
   * if the binding cannot do that.
   */
  stop?(): void
}

/** Properties of a request that `with` replaces. An absent property keeps its value. */
export interface RequestChanges<C = unknown> {
  readonly method?: string
  readonly path?: string
  /** The query as sent: `''`, or a string that starts with `?`. */
  readonly search?: string
  /** All headers, with lower-case names. */
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
 * One request as a value, independent of any server. Bindings create it; handlers only read it. Its
 * properties are created when they are read, so a copy such as `{ ...request }` lacks them. Use `with`.
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
   * Shows that there is no query without parsing it.
   */
  readonly search?: string | undefined
  readonly headers: RequestHeaders
  readonly body: BodySource
  /** Aborts if the client disconnects before the response is complete. Created on first access. */
  readonly signal: AbortSignal
  /**
   * Shows whether `signal` is aborted, without creating it. Absent if the binding does not know;
   * read the signal then.
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
   * Sends an informational response (RFC 9110 section 15.2), such as 104, before the final one.
   * Does nothing if the client or the connection cannot take it. Absent if the binding cannot send
   * one.
   */
  inform?(status: number, headers: ResponseHeaders): void
  /**
   * Returns this request with some properties replaced. This is the one way to pass a changed
   * request to `next` or to another handler. The original stays as it is.
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
  /**
   * Path template such as `/api/status/{id}`, without the mount path. Absent if only your framework
   * knows it.
   */
  readonly path?: string
  /** First path segment, such as `v1`, if it selects this operation. See `byPath()`. */
  readonly versionSegment?: string
  /** The OpenAPI 3.1 operation object. */
  readonly openapi: Readonly<Record<string, unknown>>
  /** Security schemes that the `security` property names, as OpenAPI objects. */
  readonly securitySchemes?: Readonly<Record<string, Readonly<Record<string, unknown>>>>
}

/**
 * A function from a request to a response. `undefined` declines the request, and your framework
 * continues.
 */
export interface Handler<C = unknown> {
  (request: HttpRequest<C>): MaybePromise<HttpResponse | undefined>
  /** Operations of the handler, for `openapi()`. */
  readonly operations?: readonly Operation[]
  /** Places of the policies around it, outermost first. Set by `compose`. */
  readonly places?: readonly PolicyPlace[]
}

/**
 * A rule around handlers. It responds itself, or calls `next` and may change the response. `C` is
 * the context that it reads. It passes the whole context on, so it fits in front of handlers that
 * read more.
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
 * The handler behind a policy. Its call is typed as a method, because TypeScript compares
 * parameters of methods in both directions: a policy passes on all of the context, so it fits in
 * front of a handler that reads more than the policy does.
 */
export type NextHandler<C> =
  & {
    /** Calls the next handler. */
    handle(request: HttpRequest<C>): ReturnType<Handler<C>>
  }['handle']
  & Pick<Handler, 'operations' | 'places'>

/** Position of a policy among others. `compose` rejects an order that would not work. */
export interface PolicyPlace {
  /** Name of the policy, such as `authorize`. */
  readonly name: string
  /** Policies that have to stand before this one if they are present, each with the reason. */
  readonly behind?: Readonly<Record<string, string>>
  /**
   * Set if the policy needs more than the request head. `waits` runs until the response head is
   * sent. `cuts` interrupts the run or the body, so it cannot stand before a handler of your
   * framework. Absent: the policy reads the request head and adds headers.
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
      : 'not a function'
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

/** Checks the request of a handler that has no description. `describe` does so for the others. */
function checked<C>(handler: Handler<C>): Handler<C> {
  return (request) => {
    checkCall(request)
    return handler(request)
  }
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
 * Key of a property that each request of our bindings has, and that refers to the request itself. A
 * copy refers to its original, and so do a proxy and an object that inherits from a request.
 */
export const ITSELF = Symbol.for('longhaul.request')

/**
 * Throws if a handler is called with something else than a request of a binding, such as a copy,
 * which lacks what the original creates when it is read.
 * @param extra - second argument of the call. Express and Fastify pass their response. A function
 * is the next handler of `compose` or `toMiddleware`.
 * @throws {TypeError} `extra` is an object, or the request is `{ ...request }`, a proxy of a
 * request, or an object that inherits from one
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
