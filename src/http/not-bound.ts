/**
 * Throws if a host calls a handler as its own: Express and Fastify pass their response as the
 * second argument. A function there is the next handler of `compose` or `toMiddleware`.
 *
 * @throws {TypeError} `extra` is an object.
 */
export function refuseHost(extra: unknown): void {
  if (typeof extra !== 'object') return
  throw new TypeError('A handler of longhaul was mounted without a binding. Wrap it: toNode(handler) in Express '
    + 'and Connect, toFastify(handler) in Fastify, toKoa(handler) in Koa, toFetch(handler) in Hono')
}
