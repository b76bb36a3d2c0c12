import { httpError } from '../http/errors.js'
import {
  backgroundAdvice, type Handler, type HttpRequest, type HttpResponse, type Operation, type ResponseHeaders,
} from '../http/exchange.js'
import { after, type MaybePromise } from '../runtime/maybe-promise.js'
import { nearest } from '../runtime/option-names.js'

/** The handlers of a resource by method: `{ GET, PUT, DELETE }`. */
export type Methods<C = unknown> = Readonly<Record<string, Handler<C>>>

const METHOD = /^[A-Z][A-Z0-9!#$%&'*+.^_`~-]*$/

/**
 * Combines handlers for the methods of one resource (RFC 9110 section 9). Use it if your framework
 * routes by path only. `router()` does the same for many paths.
 *
 * - HEAD calls the handler of GET.
 * - OPTIONS: 200 with `Allow`, and with `Accept-Patch`, `Accept-Post` and `Accept-Ranges` if the
 *   handlers describe them.
 * - Other methods: 405 `method_not_allowed` with `Allow`, or, if not in RFC 9110 or 5789, 501
 *   `not_implemented`.
 * @example
 * app.all('/time', toNode(resource({ GET: () => json(200, { now: new Date().toISOString() }) })))
 * @throws {TypeError} There is no method, or one is unknown, not in upper case or no function.
 */
export function resource<C = unknown>(methods: Methods<C>): Handler<C> {
  const table = new MethodTable<C>()
  for (const [method, handler] of Object.entries(methods)) table.add('resource', method, handler)
  if (table.allow === '') {
    throw new TypeError('resource: there are no methods; pass an object such as { GET: handler }')
  }

  const handle: Handler<C> = (request) => {
    const { method } = request
    const handler = table.find(method)
    return handler === undefined ? table.otherwise(method, STANDARD) : table.call(handler, request)
  }
  return Object.assign(handle, { operations: table.operations() })
}

/** The methods of RFC 9110 section 9, and PATCH (RFC 5789), in the order of Allow. */
export const STANDARD_METHODS: readonly string[] = [
  'GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT',
]

const STANDARD: ReadonlySet<string> = new Set(STANDARD_METHODS)

/** Returns the value of Allow (RFC 9110 section 10.2.1). Adds HEAD to GET, and always OPTIONS. */
export function allowValue(methods: Iterable<string>): string {
  const all = new Set(methods).add('OPTIONS')
  if (all.has('GET')) all.add('HEAD')
  const standard = STANDARD_METHODS.filter((method) => all.delete(method))
  return [...standard, ...all].join(', ')
}

export function optionsResponse(
  allow: string, operations: readonly Operation[] = [],
): HttpResponse {
  const headers: ResponseHeaders = { allow }
  for (const { method, openapi } of operations) {
    const taken = METHOD_HEADERS[method]
    const { requestBody, responses } = openapi as Described
    const content = requestBody?.content
    if (taken !== undefined && content) headers[taken] ??= Object.keys(content).join(', ')
    const unit = responses?.['200']?.headers?.['Accept-Ranges']?.schema?.const
    if (method === 'GET' && unit !== undefined) headers['accept-ranges'] ??= unit
  }
  // An empty string rather than no body, so that the response has `Content-Length: 0`.
  return { status: 200, headers, body: '' }
}

const METHOD_HEADERS: Readonly<Record<string, string>> = {
  PATCH: 'accept-patch', POST: 'accept-post',
}

interface Described {
  readonly requestBody?: { readonly content?: ByName<unknown> }
  readonly responses?: ByName<{
    readonly headers?: ByName<{ readonly schema?: { readonly const?: string } }>
  }>
}

type ByName<T> = Readonly<Record<string, T>>

export class MethodTable<C> {
  readonly #byMethod = new Map<string, Handler<C>>()
  #any: Handler<C> | undefined
  allow = ''

  /** Adds a handler for a method, or for any method. `where` starts the message of an error. */
  add(where: string, method: string | undefined, handler: Handler<C>): void {
    if (method !== undefined) checkMethod(where, method)
    if (typeof handler !== 'function') {
      throw new TypeError(`${where} needs a handler, a function${backgroundAdvice(handler)}`)
    }
    if (method === undefined ? this.#any : this.#byMethod.has(method)) {
      const taken = `${method ?? 'any method'} already has a handler there`
      throw new TypeError(`${where}: ${taken}; leave one out`)
    }
    if (method === undefined) this.#any = handler
    else this.#byMethod.set(method, handler)
    this.allow = allowValue(this.methods())
  }

  /**
   * Returns the handler of a method. HEAD without its own handler has the handler of GET. Otherwise
   * returns the handler for any method, if the table has one.
   */
  find(method: string): Handler<C> | undefined {
    const own = this.#byMethod.get(method)
    const ofGet = method === 'HEAD' ? this.#byMethod.get('GET') : undefined
    return own ?? ofGet ?? this.#any
  }

  /**
   * Calls a handler of this table. Adds `Allow` to a response to OPTIONS without one, because the
   * handler may not know which methods it is routed for. Adds none if a handler accepts any method.
   */
  call(handler: Handler<C>, request: HttpRequest<C>): MaybePromise<HttpResponse | undefined> {
    const response = handler(request)
    if (request.method !== 'OPTIONS' || this.#any !== undefined) return response
    return after(response, (made) => made && {
      ...made, headers: { allow: this.allow, ...made.headers },
    })
  }

  operations(): Operation[] {
    const handlers = new Set(this.#byMethod.values())
    if (this.#any) handlers.add(this.#any)
    const reached = (handler: Handler<C>) => (
      (handler.operations ?? []).filter(({ method }) => this.find(method) === handler)
    )
    return [...handlers].flatMap(reached)
  }

  /** Responds to OPTIONS. Throws 405 for other `known` methods, 501 for the rest. */
  otherwise(method: string, known: ReadonlySet<string>): HttpResponse {
    if (method === 'OPTIONS') return optionsResponse(this.allow, this.operations())
    if (!known.has(method)) throw httpError('not_implemented')
    throw httpError('method_not_allowed', { headers: { allow: this.allow } })
  }

  methods(): string[] {
    return [...this.#byMethod.keys(), ...(this.#any?.operations ?? []).map(({ method }) => method)]
  }
}

const REGISTERED: ReadonlySet<string> = new Set((
  'ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT CONNECT COPY DELETE GET HEAD LABEL LINK LOCK MERGE '
  + 'MKACTIVITY MKCALENDAR MKCOL MKREDIRECTREF MKWORKSPACE MOVE OPTIONS ORDERPATCH PATCH POST PRI '
  + 'PROPFIND PROPPATCH PUT QUERY REBIND REPORT SEARCH TRACE UNBIND UNCHECKOUT UNLINK UNLOCK '
  + 'UPDATE UPDATEREDIRECTREF VERSION-CONTROL M-SEARCH NOTIFY PURGE SOURCE SUBSCRIBE UNSUBSCRIBE'
).split(' '))

const USUAL = [...STANDARD_METHODS, 'QUERY']

function checkMethod(where: string, method: string): void {
  if (REGISTERED.has(method)) return
  if (!METHOD.test(method)) {
    const advice = 'write methods in upper case'
    throw new TypeError(`${where}: ${JSON.stringify(method)} is no method; ${advice}`)
  }
  const meant = nearest(method, USUAL)
  const advice = meant === undefined ? '.' : `; did you mean ${meant}?`
  const usual = `The usual ones are ${USUAL.join(', ')}`
  throw new TypeError(`${where}: ${method} is no registered method${advice} ${usual}`)
}
