import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Handler } from '../../src/http/exchange.js'
import { checkNames } from '../../src/runtime/option-names.js'
import { Binding, NODE_OPTIONS, type NodeCall, type NodeOptions } from './binding.js'
import type { Next } from './host.js'

/** What `toNode` makes: a listener for node:http, and a middleware for Express and Connect. */
export type NodeHandler<C = unknown> = (req: IncomingMessage, res: ServerResponse, next?: Next | NodeCall<C>) => void

/**
 * Makes a handler into a node:http listener that is an Express 4, Express 5 or Connect middleware
 * as well: `server.on('request', toNode(handler))`, `app.use('/api', toNode(handler))`. Where a
 * framework has objects of its own, hand over Node's and tell the rest in the third argument:
 *
 * ```ts
 * // Koa
 * ctx.respond = false
 * handle(ctx.req, ctx.res, { context: ctx.state, params: ctx.params, body: ctx.request.body })
 * // Fastify
 * reply.hijack()
 * handle(request.raw, reply.raw, { context: { user }, params: request.params, body: request.body })
 * ```
 *
 * When the handler answers `undefined`, `next` is called; without one the answer is 404
 * `not_found`. Headers that the host has set stay, unless the handler sets them too; `Vary`,
 * `Link`, `Set-Cookie` and `Access-Control-Expose-Headers` of both are joined. Nothing that the
 * handler throws escapes.
 *
 * The body is read only when the handler asks. One that a body parser has read already is taken
 * from `req.body` or `body`. An answer that leaves more than 64 KiB of a request unread closes the
 * connection, after the client had up to 5 s to read it.
 *
 * A streamed answer's head goes out with its first chunk, after 1 s, or at once for
 * `text/event-stream`. A source that fails before that is answered with an error, later by cutting
 * the connection.
 *
 * Throws a TypeError when the handler is no function or the mount path does not start with `/`.
 */
export function toNode<C = unknown>(handler: Handler<C>, options: NodeOptions<C> = {}): NodeHandler<C> {
  checkNames('toNode', options, NODE_OPTIONS)
  const binding = new Binding(handler, options)
  return (req, res, third) => {
    if (third === undefined || typeof third === 'function') binding.run(req, res, undefined, third, false)
    else binding.run(req, res, third, third.next, false)
  }
}
