import { httpError } from '../http/errors.js'
import { describe, type Handler, type HttpRequest, type HttpResponse } from '../http/exchange.js'
import { checkNames } from '../http/option-names.js'
import { errorResponses, operation, response } from '../openapi/index.js'

/** What `trace` may be told. */
export interface TraceOptions {
  /** Further fields that are left out, in any case. */
  readonly drop?: readonly string[]
}

const KNOWN = { drop: 0 } satisfies Record<keyof TraceOptions, 0>
const SENSITIVE = /auth|cookie|token|secret|passw|credential|session|signature|api-?key|csrf|forwarded/

/**
 * A handler for TRACE (RFC 9110 section 9.3.8): echoes the request as `message/http`, 200. Fields that may be secret
 * are left out: those whose names speak of authentication, cookies, tokens, keys and the like, and those that proxies add of the
 * client (`Forwarded`). The body is never read: a request with one is 400 `bad_request`.
 *
 * Nobody gets it who does not ask for it: give it to `resource({ TRACE: trace() })`, or to `router(routes, { trace: trace() })`.
 */
export function trace<C = unknown>(options: TraceOptions = {}): Handler<C> {
  checkNames('trace', options, KNOWN)
  const { drop = [] } = options
  const dropped = new Set(drop.map((name) => name.toLowerCase()))
  const handler = (request: HttpRequest<C>): HttpResponse | undefined => {
    if (request.method !== 'TRACE') return undefined
    const { headers } = request
    if (headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0) {
      throw httpError('bad_request', { message: 'A TRACE request has no body.' })
    }
    return {
      status: 200, headers: { 'content-type': 'message/http', 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' },
      body: echo(request, (name) => dropped.has(name) || SENSITIVE.test(name)),
    }
  }
  return describe(handler, [operation('TRACE', {
    summary: 'The request as it came in', responses: {
      200: response('The request, without what may be secret', { schema: { type: 'string' }, mediaTypes: ['message/http'] }),
      ...errorResponses('bad_request'),
    },
  })])
}

function echo({ method, path, query, headers }: HttpRequest<unknown>, hidden: (name: string) => boolean): string {
  const search = query.toString()
  const lines = [`${method} ${path}${search === '' ? '' : `?${search}`} HTTP/1.1`]
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || hidden(name)) continue
    for (const line of Array.isArray(value) ? value : [value]) lines.push(`${name}: ${line}`)
  }
  return `${lines.join('\r\n')}\r\n\r\n`
}
