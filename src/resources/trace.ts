import { httpError } from '../http/errors.js'
import { describe, type Handler, type HttpRequest, type HttpResponse } from '../http/exchange.js'
import { checkNames } from '../runtime/option-names.js'
import { errorResponses } from '../openapi/errors.js'
import { operation, response } from '../openapi/operation.js'

/** Options of `trace`. */
export interface TraceOptions {
  /**
   * Names of further fields that are echoed, in any case. Name none that a proxy adds only for your
   * server, or that identifies the client. `all` echoes every field whose name is not that of a
   * credential: for a server without such a proxy. Default: none.
   */
  readonly echo?: readonly string[] | 'all'
}

/** Fields that do not identify the client. Unknown fields are not echoed: proxies add their own. */
const HARMLESS = new Set([
  'accept', 'accept-charset', 'accept-encoding', 'accept-language', 'cache-control', 'connection',
  'content-length', 'date', 'dnt', 'expect', 'host', 'if-match', 'if-modified-since',
  'if-none-match', 'if-range', 'if-unmodified-since', 'keep-alive', 'max-forwards', 'origin',
  'pragma', 'prefer', 'priority', 'range', 'sec-fetch-dest', 'sec-fetch-mode', 'sec-fetch-site',
  'sec-fetch-user', 'te', 'traceparent', 'trailer', 'upgrade', 'user-agent', 'via', 'x-request-id',
])
const CREDENTIAL = new RegExp([
  'auth', 'cookie', 'token', 'secret', 'passw', 'credential', 'session', 'signature',
  '(?<!^idempotency-)key', 'csrf', 'xsrf', 'assertion', 'jwt', 'oidc', 'identity', 'principal',
  'cert',
].join('|'))
const KNOWN = { echo: 0 } satisfies Record<keyof TraceOptions, 0>

/**
 * Answers TRACE (RFC 9110 section 9.3.8): 200 with the request as `message/http`. Only harmless
 * fields are echoed: `Accept`, `Host`, `Max-Forwards`, `User-Agent`, `Via` and similar ones, and
 * those in `echo`. Credentials never are. The body is never read: a request with one is 400
 * `bad_request`.
 *
 * @example
 * router({ 'POST /reports': handler }, { trace: trace() })
 *
 * @throws {TypeError} `echo` names a field that may identify the client, or an option is unknown.
 */
export function trace<C = unknown>(options: TraceOptions = {}): Handler<C> {
  checkNames('trace', options, KNOWN)
  const { echo: more = [] } = options
  const shown = new Set((more === 'all' ? [] : more).map((name) => name.toLowerCase()))
  for (const name of shown) {
    if (!CREDENTIAL.test(name) && !name.includes('forwarded')) continue
    const reason = 'so it is not echoed (RFC 9110 section 9.3.8)'
    throw new TypeError(`trace: ${name} may say who the client is, ${reason}`)
  }
  const isShown = more === 'all'
    ? (name: string) => !CREDENTIAL.test(name)
    : (name: string) => HARMLESS.has(name) || shown.has(name)
  const handler = (request: HttpRequest<C>): HttpResponse | undefined => {
    if (request.method !== 'TRACE') return undefined
    const { headers } = request
    if (headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0) {
      throw httpError('bad_request', { message: 'A TRACE request has no body.' })
    }
    return {
      status: 200,
      headers: {
        'content-type': 'message/http', 'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
      },
      body: echo(request, isShown),
    }
  }
  const shownRequest = response('The request, without what may be secret', {
    schema: { type: 'string' }, mediaTypes: ['message/http'],
  })
  return describe(handler, [operation('TRACE', {
    summary: 'The request as it came in',
    responses: { 200: shownRequest, ...errorResponses('bad_request') },
  })])
}

function echo(
  { method, path, query, headers }: HttpRequest<unknown>, isShown: (name: string) => boolean,
): string {
  const search = query.toString()
  const lines = [`${method} ${path}${search === '' ? '' : `?${search}`} HTTP/1.1`]
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || !isShown(name)) continue
    for (const line of Array.isArray(value) ? value : [value]) lines.push(`${name}: ${line}`)
  }
  return `${lines.join('\r\n')}\r\n\r\n`
}
