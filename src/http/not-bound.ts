/**
 * Key of a member that each request of our bindings has, and that refers to the request itself. A
 * copy refers to its original, and so do a proxy and an object that inherits from a request.
 */
export const ITSELF = Symbol.for('longhaul.request')

/**
 * Throws if a handler is called with something else than a request of a binding.
 *
 * @param extra - second argument of the call. Express and Fastify pass their response. A function
 * is the next handler of `compose` or `toMiddleware`.
 * @throws {TypeError} `extra` is an object, or the request is a copy.
 */
export function checkCall(request: object, extra: unknown): void {
  if (typeof extra === 'object') throw new TypeError(NOT_BOUND)
  checkRequest(request)
}

/**
 * Throws if a request is a copy, because a copy lacks what the original creates when it is read.
 *
 * @throws {TypeError} `{ ...request }`, a proxy of a request, or an object that inherits from one
 */
export function checkRequest(request: object): void {
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
