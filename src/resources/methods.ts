import type { Handler, HttpResponse } from '../http/exchange.js'

/** The methods of RFC 9110 section 9, and PATCH (RFC 5789), in the order in which Allow lists them. */
export const STANDARD_METHODS: readonly string[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT']

/** The value of an Allow field (RFC 9110 section 10.2.1): HEAD comes with GET, and OPTIONS always. */
export function allowValue(methods: Iterable<string>): string {
  const all = new Set(methods).add('OPTIONS')
  if (all.has('GET')) all.add('HEAD')
  const standard = STANDARD_METHODS.filter((method) => all.delete(method))
  return [...standard, ...all].join(', ')
}

/** The answer to OPTIONS where a handler has none of its own (RFC 9110 section 9.3.7). */
export function optionsResponse(allow: string): HttpResponse {
  // Empty text rather than no body, so that the binding sends `Content-Length: 0`.
  return { status: 200, headers: { allow }, body: '' }
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

  /** The methods named, and those that a handler for any method says it answers. */
  methods(): string[] {
    return [...this.#byMethod.keys(), ...(this.#any?.operations ?? []).map(({ method }) => method)]
  }
}
