/**
 * Returns the error for a handler that a host calls as its own. A host passes more arguments than
 * the request, such as the response of Express.
 */
export function notBound(): TypeError {
  return new TypeError('A handler of longhaul was mounted without a binding. Wrap it: toNode(handler) in Express '
    + 'and Connect, toFastify(handler) in Fastify, toKoa(handler) in Koa, toFetch(handler) in Hono')
}
