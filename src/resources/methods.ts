import type { Handler, HttpResponse, Operation, ResponseHeaders } from '../http/exchange.js'
import { nearest } from '../runtime/option-names.js'

/**
 * The methods of RFC 9110 section 9, and PATCH (RFC 5789), in the order in which Allow lists them.
 */
export const STANDARD_METHODS: readonly string[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT']

/**
 * The value of an Allow field (RFC 9110 section 10.2.1): HEAD comes with GET, and OPTIONS always.
 */
export function allowValue(methods: Iterable<string>): string {
  const all = new Set(methods).add('OPTIONS')
  if (all.has('GET')) all.add('HEAD')
  const standard = STANDARD_METHODS.filter((method) => all.delete(method))
  return [...standard, ...all].join(', ')
}

/**
 * The answer to OPTIONS where a handler has none of its own (RFC 9110 section 9.3.7): what is
 * allowed, and as far as the handlers tell, which bodies PATCH and POST take (RFC 5789 section 3.1,
 * W3C LDP 7.1) and which ranges GET.
 */
export function optionsResponse(
  allow: string, operations: readonly Operation[] = [],
): HttpResponse {
  const headers: ResponseHeaders = { allow }
  for (const { method, openapi } of operations) {
    const taken = METHOD_FIELDS[method]
    const { requestBody, responses } = openapi as Described
    if (taken !== undefined && requestBody?.content) headers[taken] ??= Object.keys(requestBody.content).join(', ')
    const unit = responses?.['200']?.headers?.['Accept-Ranges']?.schema?.const
    if (method === 'GET' && unit !== undefined) headers['accept-ranges'] ??= unit
  }
  // Empty text rather than no body, so that the binding sends `Content-Length: 0`.
  return { status: 200, headers, body: '' }
}

const METHOD_FIELDS: Readonly<Record<string, string>> = {
  PATCH: 'accept-patch', POST: 'accept-post',
}

/** As much of an OpenAPI operation as is read here. */
interface Described {
  readonly requestBody?: { readonly content?: Readonly<Record<string, unknown>> }
  readonly responses?: Readonly<Record<string, { readonly headers?: Readonly<Record<string, { readonly schema?: { readonly const?: string } }>> }>>
}

/** The handler for each method of one resource. */
export class MethodTable<C> {
  readonly #byMethod = new Map<string, Handler<C>>()
  #any: Handler<C> | undefined
  allow = ''

  /** False when the method (any, if there is none) is taken. */
  add(method: string | undefined, handler: Handler<C>): boolean {
    if (method === undefined) {
      if (this.#any) return false
      this.#any = handler
    } else {
      if (this.#byMethod.has(method)) return false
      this.#byMethod.set(method, handler)
    }
    this.allow = allowValue(this.methods())
    return true
  }

  /** The method's own handler; GET's for HEAD; then the one for any method. */
  find(method: string): Handler<C> | undefined {
    return this.#byMethod.get(method) ?? (method === 'HEAD' ? this.#byMethod.get('GET') : undefined) ?? this.#any
  }

  /** What the handlers say of the methods that reach them. */
  operations(): Operation[] {
    const handlers = new Set(this.#byMethod.values())
    if (this.#any) handlers.add(this.#any)
    return [...handlers].flatMap((handler) => (handler.operations ?? []).filter(({ method }) => this.find(method) === handler))
  }

  /** The answer to OPTIONS. A fresh one each time: policies may add to it. */
  options(): HttpResponse {
    return optionsResponse(this.allow, this.operations())
  }

  /** The methods named, and those that a handler for any method says it answers. */
  methods(): string[] {
    return [...this.#byMethod.keys(), ...(this.#any?.operations ?? []).map(({ method }) => method)]
  }
}

/** The IANA registry of HTTP methods, and what Node's parser takes beside them. */
const REGISTERED: ReadonlySet<string> = new Set((
  'ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT CONNECT COPY DELETE GET HEAD LABEL LINK LOCK MERGE MKACTIVITY MKCALENDAR MKCOL '
  + 'MKREDIRECTREF MKWORKSPACE MOVE OPTIONS ORDERPATCH PATCH POST PRI PROPFIND PROPPATCH PUT QUERY REBIND REPORT SEARCH TRACE UNBIND '
  + 'UNCHECKOUT UNLINK UNLOCK UPDATE UPDATEREDIRECTREF VERSION-CONTROL M-SEARCH NOTIFY PURGE SOURCE SUBSCRIBE UNSUBSCRIBE'
).split(' '))

/** The names that a misspelling is most likely to be meant for. */
const USUAL = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT', 'QUERY']

/**
 * Tells why a method is refused: it is not registered with IANA, and `extensionMethods` does not
 * name it.
 * @returns the message, or `undefined` for a method that is known
 */
export function unknownMethod(
  method: string, extensionMethods: readonly string[],
): string | undefined {
  if (REGISTERED.has(method) || extensionMethods.includes(method)) return undefined
  const meant = nearest(method, USUAL)
  const advice = meant === undefined ? '' : `; did you mean ${meant}?`
  return `${method} is no registered method${advice || '.'} The usual ones are ${USUAL.join(', ')}; name one of your own in the option extensionMethods`
}
