import type { IncomingMessage, ServerResponse } from 'node:http'
import { boundary, failureResponse, type OnError } from '../../src/http/boundary.js'
import type { Handler, HttpRequest, HttpResponse } from '../../src/http/exchange.js'
import { cleanMountPath, type ContextArguments } from '../../src/http/request.js'
import { notFound } from '../../src/http/respond.js'
import { isPending, type MaybePromise } from '../../src/runtime/maybe-promise.js'
import { isStopping, stopsSoFar } from '../../src/runtime/stopping.js'
import { checkNames } from '../../src/runtime/option-names.js'
import { func, readOptions, value, type OptionTable } from '../../src/runtime/options.js'
import { isBehind, runInTurn, type HostRequest, type HostResponse, type Next } from './host.js'
import { NodeRequest, placeOf, type CallFacts, type Place } from './request.js'
import { send as sendDirectly, type Rescue, type Send } from './send.js'

/** Options of `toNode` and `attach`. */
export interface NodeOptions<C = unknown> {
  /** Receives every error that is masked to clients; see `guard`. */
  readonly onError?: OnError
  /** Creates `request.context` when it is first read. Default: `{ user: req.user }`. */
  readonly context?: (req: HostRequest) => C
  /**
   * Start of the path under which the handler is mounted, as clients see it, such as `/api`, for
   * `Location` and links. Default: what Express or Connect has removed, or `''`.
   *
   * Set it behind a proxy that removes a prefix, and in frameworks that do not report it.
   */
  readonly mountPath?: string | ((req: HostRequest) => string)
}

/** Facts of one request, and the next handler. */
export interface NodeCall<C = unknown> extends CallFacts<C> {
  readonly next?: Next
}

export const NODE_OPTIONS = {
  onError: func(),
  context: func(),
  mountPath: value<never>('a string or a function', (given) => (
    typeof given === 'string' || typeof given === 'function'
  )),
} satisfies OptionTable<NodeOptions>

const CALL = {
  body: 0, context: 0, mountPath: 0, params: 0, next: 0,
} satisfies Record<keyof NodeCall, 0>

/** A listener for node:http that is also a middleware for Express and Connect. */
export type NodeHandler<C = unknown> = (
  req: IncomingMessage, res: ServerResponse, next?: Next | NodeCall<C>,
) => void

/**
 * Turns a handler into a node:http listener and middleware of Express 4, Express 5 and Connect. For
 * other frameworks, pass Node's objects and the facts of the request in the third argument.
 *
 * If the handler declines, `next` is called; without a `next` the client gets 404 `not_found`.
 * Headers that your framework has set stay, unless the handler sets them too. `Vary`, `Link`,
 * `Set-Cookie` and `Access-Control-Expose-Headers` of both are joined.
 *
 * The body is read when the handler reads it. A body that a parser has read is taken from
 * `req.body` or `body`. If more than 64 KiB of a request are not read, the connection is closed
 * after the response.
 *
 * A pipelined request runs when the response before it has been sent, unless the connection has
 * ended. If 3000 requests wait, the connection is closed.
 *
 * The status and headers of a streamed response are sent with its first chunk, after 1 s, or at
 * once for `text/event-stream`. If the source fails before that, the client gets an error response,
 * else the connection is cut.
 * @example
 * app.use('/api', toNode(handler))
 * @throws {TypeError} The handler is not a function, `mountPath` does not start with `/`, or an
 * option is not valid or unknown.
 */
export function toNode<C = unknown>(
  handler: Handler<C>, ...[options = {}]: ContextArguments<C, NodeOptions<C>>
): NodeHandler<C> {
  const binding = new Binding(handler, readOptions('toNode', options, NODE_OPTIONS))
  return (req, res, third) => {
    if (third === undefined || typeof third === 'function') {
      binding.run(req, res, { next: third })
    } else binding.run(req, res, { facts: third, next: third.next })
  }
}

const defaultContext = (req: HostRequest): unknown => ({ user: req.user })

/** A call of a framework, beside its request and response. */
interface FrameworkCall<C> {
  readonly facts?: CallFacts<C> | undefined
  /** Passes the request on. Default: a 404. */
  readonly next?: Next | undefined
  /** `true` if the client waits for a 100. Default `false`. */
  readonly isWaiting?: boolean
}

/** Parts of a binding that a framework replaces. */
interface BindingParts<C> {
  readonly send?: Send
  /** Finds the path and the mount path of a request. Default: `placeOf`. */
  readonly place?: (req: HostRequest, facts: CallFacts<C> | undefined) => Place
  /** Responds to a request that the handler does not get. */
  readonly rejecting?: (error: unknown) => Handler<C>
}

export class Binding<C> {
  private readonly handle: (request: HttpRequest<C>) => MaybePromise<HttpResponse | undefined>
  private readonly rescue: Rescue
  private readonly makeContext: (req: HostRequest) => C
  private readonly send: Send
  private readonly place: (req: HostRequest, facts: CallFacts<C> | undefined) => Place
  private readonly rejecting: (error: unknown) => Handler<C>
  private readonly stops = stopsSoFar()

  constructor(
    handler: Handler<C>, { onError, context, mountPath }: NodeOptions<C>,
    { send = sendDirectly, place, rejecting }: BindingParts<C> = {},
  ) {
    const rescue: Rescue = (error, call) => failureResponse(error, call, onError)
    this.rescue = rescue
    this.handle = boundary(handler, onError)
    this.makeContext = context ?? defaultContext as (req: HostRequest) => C
    const fixed = typeof mountPath === 'string' ? cleanMountPath(mountPath) : undefined
    this.send = send
    this.place = place ?? ((req, facts) => {
      const given = facts?.mountPath ?? (typeof mountPath === 'function' ? mountPath(req) : undefined)
      return placeOf(req, given === undefined ? fixed : cleanMountPath(given))
    })
    this.rejecting = rejecting ?? ((error) => (request) => failureResponse(error, request, onError))
  }

  run(req: HostRequest, res: HostResponse, call: FrameworkCall<C>): void {
    if (isBehind(req, res)) {
      runInTurn(req, res, () => { this.run(req, res, call) })
      return
    }
    const { facts, next, isWaiting } = call
    let place: Place
    try {
      if (facts !== undefined) checkNames('toNode: the third argument', facts, CALL)
      place = this.place(req, facts)
    } catch (error) {
      this.reject(req, res, error)
      return
    }
    const request = new NodeRequest(req, res, place, { facts, isWaiting, makeContext: this.makeContext })
    this.settle(request, this.handle(request), next)
  }

  /** Responds with an error to a request that the handler does not get. */
  reject(req: HostRequest, res: HostResponse, error: unknown): void {
    if (isBehind(req, res)) {
      runInTurn(req, res, () => { this.reject(req, res, error) })
      return
    }
    const place = { path: req.url ?? '', search: '', mountPath: '' }
    const request = new NodeRequest(req, res, place, { makeContext: this.makeContext })
    this.settle(request, this.rejecting(error)(request), undefined)
  }

  private settle(
    call: NodeRequest<C>, response: MaybePromise<HttpResponse | undefined>, next: Next | undefined,
  ): void {
    if (isPending(response)) void response.then((late) => { this.settle(call, late, next) })
    else if (response !== undefined) {
      // So that `server.close` ends although a client polls on this connection.
      if (isStopping(this.stops) && call.req.httpVersionMajor === 1) call.res.shouldKeepAlive = false
      this.send(call, response, this.rescue)
    }
    else if (next !== undefined) next()
    else this.settle(call, this.rescue(notFound(call), call), undefined)
  }
}
