import type { MaybePromise } from '../runtime/maybe-promise.js'

/** Request headers as Node gives them: lower-case names, repeated fields joined or listed. */
export type RequestHeaders = Readonly<Record<string, string | string[] | undefined>>

/** Response headers: lower-case names; a list is sent as that many field lines. */
export type ResponseHeaders = Record<string, string | string[]>

/** What a response may carry. Text and bytes get their `Content-Length` from the binding. */
export type ResponseBody = string | Uint8Array | AsyncIterable<Uint8Array | string>

/**
 * The body of a request. Nothing is read from the connection until one of these is called, and it
 * is read at most once; `readBytes` and `readJson` in `body.ts` are what handlers use.
 */
export interface BodySource {
  /** The value that the host's own body parser left, in a box so that `undefined` stays a value. */
  readonly parsed: { readonly value: unknown } | undefined
  /**
   * All bytes as sent (content codings not undone), or `undefined` when there are more than
   * `limit`: the rest is not read then. Rejects when the client goes away midway.
   */
  bytes(limit: number): Promise<Uint8Array | undefined>
  /** The bytes as they arrive, as sent, with backpressure; for bodies larger than memory. */
  stream(): AsyncIterable<Uint8Array>
}

/** One request, as a value that knows no server. Bindings make it; handlers only read it. */
export interface HttpRequest<C = unknown> {
  /** Upper-case method, as sent. */
  readonly method: string
  /** The path as the client sent it, mount path included, percent-encoded, without the query. */
  readonly path: string
  /**
   * The part of `path` under which the host mounted this handler; `''` at the root. Never ends in
   * `/`.
   */
  readonly mountPath: string
  /** Path parameters, percent-decoded: the host router's or ours. */
  readonly params: Readonly<Record<string, string>>
  /** The query, parsed when first asked for. */
  readonly query: URLSearchParams
  /**
   * The query as sent, `''` or from its `?` on: tells that there is none without parsing. Absent
   * where a binding can't tell.
   */
  readonly search?: string | undefined
  readonly headers: RequestHeaders
  readonly body: BodySource
  /** Aborts when the client has gone before the answer was complete. Made when first asked for. */
  readonly signal: AbortSignal
  /**
   * Whether `signal` would be aborted by now, told without making one. Absent where a binding can't
   * tell: ask the signal then.
   */
  readonly gone?: boolean | undefined
  /**
   * Version that `versions` has chosen, as its owner wrote it. Absent where no `versions` is in
   * front.
   */
  readonly version?: string | undefined
  /** What the host knows: user, tenant, request id. */
  readonly context: C
  /** The address of the connected peer (no forwarding header is read), where the host tells it. */
  readonly peerAddress: string | undefined
  /** The host's own objects, for handlers that must reach past this value. */
  readonly raw: unknown
}

/** One answer, as a value. */
export interface HttpResponse {
  status: number
  headers: ResponseHeaders
  body?: ResponseBody
}

/** What a handler says of itself: one OpenAPI 3.1 operation for a method and a path template. */
export interface Operation {
  /** Upper-case method. */
  readonly method: string
  /**
   * Path template such as `/api/status/{id}`, without the mount path; absent where only the host
   * knows it.
   */
  readonly path?: string
  /**
   * The first segment of the path, such as `v1`, where it is what chooses this operation: see
   * `byPath()`.
   */
  readonly versionSegment?: string
  /** The OpenAPI 3.1 operation object. */
  readonly openapi: Readonly<Record<string, unknown>>
  /** The security schemes that its `security` names, as OpenAPI security scheme objects. */
  readonly securitySchemes?: Readonly<Record<string, Readonly<Record<string, unknown>>>>
}

/** A function from a request to an answer. `undefined` says «not mine», and the host goes on. */
export interface Handler<C = unknown> {
  (request: HttpRequest<C>): MaybePromise<HttpResponse | undefined>
  /** What the handler answers to, for `openapi()`. */
  readonly operations?: readonly Operation[]
  /** The places of the policies around it, outermost first, where `compose` has put any. */
  readonly places?: readonly PolicyPlace[]
}

/**
 * A rule around handlers. It answers by itself, or calls `next` and may change the answer. `C` is
 * the context that it reads. It passes the rest of the context on, so it fits in front of handlers
 * that read more.
 */
export interface Policy<C = unknown> {
  (request: HttpRequest<C>, next: NextHandler<NoInfer<C>>): MaybePromise<HttpResponse | undefined>
  /** Where it belongs among others; one without fits everywhere. */
  readonly place?: PolicyPlace
  /**
   * What it adds to the description of the handlers behind it: the failures that it answers with,
   * the credentials that it asks for.
   */
  readonly describe?: (operation: Operation) => Operation
}

/**
 * The handler behind a policy. Its call is typed as a method, because TypeScript compares parameters
 * of methods in both directions: a policy passes on all of the context, so it fits in front of a
 * handler that reads more than the policy does.
 */
export type NextHandler<C> =
  & { handle(request: HttpRequest<C>): ReturnType<Handler<C>> }['handle']
  & Pick<Handler, 'operations' | 'places'>

/** Where a policy belongs among others. `compose` refuses an order that would not work. */
export interface PolicyPlace {
  /** What it is, such as `authorize`. */
  readonly name: string
  /** Those that, where they are there, have to come before it, and why. */
  readonly behind?: Readonly<Record<string, string>>
  /**
   * It needs more of what is behind it than the head of the request: `waits` until the head of the
   * answer is out; `cuts` into the run or the body, so it can't stand before a handler of a host's
   * own. Absent: it only reads the head and adds header fields.
   */
  readonly wholeRun?: 'waits' | 'cuts'
}

/** Gives `handler` the description that `openapi()` reads. */
export function describe<C>(handler: Handler<C>, operations: readonly Operation[]): Handler<C> {
  return Object.assign((request: HttpRequest<C>) => handler(request), { operations })
}

/**
 * Wraps a handler in policies: the first named sees the request first and the response last. The
 * result keeps the handler's description. The recommended order, with those left out that you don't
 * need:
 *
 * `requestId`, `cors`, `crossSite`, `limitHeaders`, `rateLimit` by address, `authenticate`,
 * `rateLimit` by principal, `authorize`, `limitBody`, `timeouts`, `limitConcurrency`, `versions` or
 * `deprecated`, `idempotent`, the handler.
 *
 * @throws {TypeError} for an order that would not do what it says (also around a handler that is
 * composed already), and for what is no function
 */
export function compose<C>(...parts: [...policies: Policy<C>[], handler: Handler<C>]): Handler<C> {
  if (parts.length === 0) throw new TypeError('compose: pass policies and, last, a handler')
  for (const part of parts) {
    if (typeof part !== 'function') throw new TypeError(`compose takes policies and, last, a handler; ${String(part)} is no function`)
  }
  const handler = parts[parts.length - 1] as Handler<C>
  const policies = parts.slice(0, -1) as Policy<C>[]
  if (policies.length === 0) return handler
  const places = [...policies.flatMap(({ place }) => place ?? []), ...handler.places ?? []]
  checkOrder(places)
  const wrapped = policies.reduceRight<Handler<C>>((next, policy) => (request) => policy(request, next), handler)
  const operations = handler.operations?.map((operation) => policies.reduceRight((told, policy) => policy.describe?.(told) ?? told, operation))
  return Object.assign(wrapped, { ...operations && { operations }, ...places.length > 0 && { places } })
}

function checkOrder(places: readonly PolicyPlace[]): void {
  places.forEach(({ name, behind = {} }, at) => {
    for (const { name: later } of places.slice(at + 1)) {
      const why = behind[later]
      if (why !== undefined) throw new TypeError(`compose: ${name} stands before ${later}, but ${why}; name ${later} first`)
    }
  })
}
