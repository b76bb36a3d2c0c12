import type { IncomingMessage, ServerResponse } from 'node:http'
import type { ContextArguments } from '../../src/http/context-arguments.js'
import type { Handler } from '../../src/http/exchange.js'
import { checkNames } from '../../src/runtime/option-names.js'
import { Binding, NODE_OPTIONS, type NodeCall, type NodeOptions } from './binding.js'
import type { Next } from './host.js'

/** A listener for node:http that is also a middleware for Express and Connect. */
export type NodeHandler<C = unknown> = (
  req: IncomingMessage, res: ServerResponse, next?: Next | NodeCall<C>,
) => void

/**
 * Turns a handler into a node:http listener that is also a middleware of Express 4, Express 5 and
 * Connect. For other frameworks, pass Node's objects and the facts of the request in the third
 * argument.
 *
 * If the handler declines, `next` is called; without one the answer is 404 `not_found`. Headers
 * that the host has set stay, unless the handler sets them too. `Vary`, `Link`, `Set-Cookie` and
 * `Access-Control-Expose-Headers` of both are joined. Nothing that the handler throws escapes.
 *
 * The body is read only when the handler reads it. A body that a parser has read already is taken
 * from `req.body` or `body`. If an answer leaves more than 64 KiB of a request unread, the
 * connection is closed after the client had up to 5 s to read the answer.
 *
 * A pipelined request runs when the response before it on its connection has been sent, and not at
 * all if the connection has ended by then. If 3000 requests wait, the connection is closed.
 *
 * The head of a streamed answer is sent with its first chunk, after 1 s, or at once for
 * `text/event-stream`. If the source fails before that, the client gets an error answer; later, the
 * connection is cut.
 *
 * @example
 * app.use('/api', toNode(handler))
 *
 * @throws {TypeError} The handler is not a function, `mountPath` does not start with `/`, or an
 * option is unknown.
 */
export function toNode<C = unknown>(
  handler: Handler<C>, ...[options = {}]: ContextArguments<C, NodeOptions<C>>
): NodeHandler<C> {
  checkNames('toNode', options, NODE_OPTIONS)
  const binding = new Binding(handler, options)
  return (req, res, third) => {
    if (third === undefined || typeof third === 'function') {
      binding.run(req, res, undefined, third, false)
    } else binding.run(req, res, third, third.next, false)
  }
}
