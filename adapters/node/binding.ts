import type { IncomingMessage, ServerResponse } from 'node:http'
import { type ContextArguments, cleanMountPath } from '../../src/http/request.js'
import type { Handler, HttpRequest, HttpResponse } from '../../src/http/exchange.js'
import { checkNames } from '../../src/runtime/option-names.js'
import { NodeRequest, type CallFacts } from './request.js'
import type { Next, HostRequest, HostResponse } from './host.js'
import { isPending, type MaybePromise } from '../../src/runtime/maybe-promise.js'
import { notFound } from '../../src/http/respond.js'
import { guard, type OnError } from '../../src/http/boundary.js'
import { responseBefore, runAfter } from './in-turn.js'
import { send, type Rescue } from './send.js'

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

/** Options of `toNode` and `attach`. */
export interface NodeOptions<C = unknown> {
  /** Receives every error that is masked to clients; see `guard`. */
  readonly onError?: OnError
  /** Creates `request.context` when it is first read. Default: `{ user: req.user }`. */
  readonly context?: (req: HostRequest) => C
  /**
   * The front of the path under which the handler is mounted, as clients see it. `Location` and
   * links begin with it, and it starts with `/`. Set it behind a proxy that removes a prefix, and
   * in hosts that do not tell it. Default: what Express or Connect has stripped, or `''`.
   */
  readonly mountPath?: string | ((req: HostRequest) => string)
}

/** Facts of one request, and the next handler. */
export interface NodeCall<C = unknown> extends CallFacts<C> {
  readonly next?: Next
}

/** The names of these options. */
export const NODE_OPTIONS = {
  onError: 0, context: 0, mountPath: 0,
} satisfies Record<keyof NodeOptions, 0>
const CALL = {
  body: 0, context: 0, mountPath: 0, params: 0, next: 0,
} satisfies Record<keyof NodeCall, 0>

const defaultContext = (req: HostRequest): unknown => ({ user: req.user })

/** A handler with its error boundary and its settings, behind `toNode` and `attach`. */
export class Binding<C> {
  private readonly handle: (request: HttpRequest<C>) => MaybePromise<HttpResponse | undefined>
  private readonly boundary: { readonly onError?: OnError }
  private readonly makeContext: (req: HostRequest) => C
  private readonly mountPath: string | ((req: HostRequest) => string) | undefined

  constructor(handler: Handler<C>, options: NodeOptions<C>) {
    if (typeof handler !== 'function') {
      throw new TypeError(
        'Pass a handler, such as submit(report) or status of taskEndpoints, not '
        + (handler === null ? 'null' : typeof handler)
      )
    }
    const { onError, context, mountPath } = options
    this.boundary = onError === undefined ? {} : { onError }
    this.handle = guard(handler, this.boundary)
    this.makeContext = context ?? defaultContext as (req: HostRequest) => C
    this.mountPath = typeof mountPath === 'string' ? cleanMountPath(mountPath) : mountPath
  }

  /**
   * Runs one exchange, after those before it on the same connection. `waiting`: the client waits
   * for a 100.
   */
  run(
    req: HostRequest,
    res: HostResponse,
    facts: CallFacts<C> | undefined,
    next: Next | undefined,
    waiting: boolean,
  ): void {
    const before = responseBefore(req, res)
    if (before === undefined) this.runNow(req, res, facts, next, waiting)
    else runAfter(before, req, res, () => { this.runNow(req, res, facts, next, waiting) })
  }

  /** Responds with another handler than its own, which is guarded already. */
  respond(req: HostRequest, res: HostResponse, handler: Handler<C>): void {
    const before = responseBefore(req, res)
    const respond = (): void => {
      const call = this.call(req, res, undefined, false, undefined)
      const answer = handler(call)
      if (isPending(answer)) void answer.then((late) => { this.settle(call, late, undefined) })
      else this.settle(call, answer, undefined)
    }
    if (before === undefined) respond()
    else runAfter(before, req, res, respond)
  }

  private runNow(
    req: HostRequest,
    res: HostResponse,
    facts: CallFacts<C> | undefined,
    next: Next | undefined,
    waiting: boolean,
  ): void {
    let mountPath: string | undefined
    try {
      if (facts !== undefined) checkNames('toNode: the third argument', facts, CALL)
      mountPath = facts?.mountPath === undefined
        ? this.ownMountPath(req)
        : cleanMountPath(facts.mountPath)
    } catch (error) {
      const call = this.call(req, res, facts, waiting, undefined)
      void this.rescue(call, error).then((answer) => send(call, answer, this.rescuer(call)))
      return
    }
    const call = this.call(req, res, facts, waiting, mountPath)
    const answer = this.handle(call)
    if (isPending(answer)) void answer.then((late) => this.settle(call, late, next))
    else this.settle(call, answer, next)
  }

  private settle(
    call: NodeRequest<C>, answer: HttpResponse | undefined, next: Next | undefined,
  ): void {
    if (answer !== undefined) send(call, answer, this.rescuer(call))
    else if (next !== undefined) next()
    else void this.rescue(call, notFound(call)).then((missing) => send(call, missing, this.rescuer(call)))
  }

  private call(
    req: HostRequest,
    res: HostResponse,
    facts: CallFacts<C> | undefined,
    waiting: boolean,
    mountPath: string | undefined,
  ): NodeRequest<C> {
    return new NodeRequest(req, res, facts, waiting, this.makeContext, mountPath)
  }

  private ownMountPath(req: HostRequest): string | undefined {
    return typeof this.mountPath === 'function'
      ? cleanMountPath(this.mountPath(req))
      : this.mountPath
  }

  private rescuer(call: NodeRequest<C>): Rescue {
    return (error) => this.rescue(call, error)
  }

  private async rescue(call: NodeRequest<C>, error: unknown): Promise<HttpResponse> {
    return await guard<C>(() => { throw error }, this.boundary)(call) as HttpResponse
  }
}
