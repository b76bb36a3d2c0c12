import { compose, httpError, type Handler } from 'longhaul'
import { authorize, type Context } from './auth.js'

/** Names of headers that carry credentials. TRACE does not show them (RFC 9110 section 9.3.8). */
const CREDENTIAL = new RegExp([
  'auth', 'cookie', 'token', 'secret', 'passw', 'credential', 'session', 'signature',
  '(?<!^idempotency-)key', 'csrf', 'xsrf', 'assertion', 'jwt', 'oidc', 'identity', 'principal',
  'cert',
].join('|'))

/**
 * Responds to TRACE with the request as `message/http`, without credentials. The OpenAPI document does
 * not name it: an operation at each path would be a sixth of the document, and no generated client
 * needs one.
 */
export const trace: Handler<Context> = (request) => {
  const { method, path, query, headers } = request
  if (headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0) {
    throw httpError('bad_request', { message: 'A TRACE request has no body.' })
  }
  const search = query.size === 0 ? '' : `?${query.toString()}`
  const lines = Object.entries(headers).flatMap(([name, value = []]) => (
    CREDENTIAL.test(name) ? [] : [value].flat().map((each) => `${name}: ${each}`)
  ))
  return {
    status: 200,
    headers: {
      'content-type': 'message/http', 'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
    },
    body: `${[`${method} ${path}${search} HTTP/1.1`, ...lines].join('\r\n')}\r\n\r\n`,
  }
}

/** Adds TRACE to each path of some routes. */
export function withTrace(routes: Readonly<Record<string, Handler<Context>>>): Record<string, Handler<Context>> {
  const paths = Object.keys(routes).map((route) => route.slice(route.indexOf('/')))
  const traced = compose(authorize, trace)
  return { ...routes, ...Object.fromEntries(paths.map((path) => [`TRACE ${path}`, traced])) }
}
