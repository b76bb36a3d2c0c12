import { AsyncResource } from 'node:async_hooks'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { HttpRequest } from '../../src/http/exchange.js'

export const HANDED_ON: unique symbol = Symbol.for('longhaul.handedOn') as never

/** A request of node:http, with the properties that Express, Connect, Passport and body parsers add. */
export interface HostRequest extends IncomingMessage {
  originalUrl?: string
  baseUrl?: string
  params?: unknown
  body?: unknown
  user?: unknown
  [HANDED_ON]?: HttpRequest
}

export interface HostResponse extends ServerResponse {
  flush?: () => void
}

/** `HttpRequest.raw` under `longhaul/node`. */
export interface NodeRaw {
  readonly req: IncomingMessage
  readonly res: ServerResponse
}

/** The function that Express and Connect call `next`. */
export type Next = (error?: unknown) => void

export function isGone(req: HostRequest, res: HostResponse): boolean {
  return res.destroyed || req.socket.destroyed
}

/**
 * Calls `left` once, when the exchange is over or its connection closes. Node emits no `close` for
 * a response that waits behind another one, so the connection is watched then.
 */
export function onClose(req: HostRequest, res: HostResponse, left: () => void): void {
  const socket = res.socket === null ? req.socket : undefined
  const once = (): void => {
    res.off('close', once)
    socket?.off('close', once)
    left()
  }
  res.on('close', once)
  socket?.on('close', once)
}

/** For one connection, of which one read (64 KiB) has at most 2,600 requests. */
const MAX_WAITING = 3000
/** For all connections together. Each waiting request takes some 4 KiB. */
const MAX_WAITING_IN_ALL = 10_000
let waitingInAll = 0

const LAST = Symbol('longhaul.lastResponse')
const WAITING = Symbol('longhaul.waiting')
const SEEN = Symbol('longhaul.seen')

/** `LAST` is weak, so that an idle connection does not keep its last request in memory. */
type Connection = Duplex & { [LAST]?: WeakRef<ServerResponse>, [WAITING]?: number }
type SeenResponse = HostResponse & { [SEEN]?: true }

export function lastResponse(socket: Duplex): ServerResponse | undefined {
  return (socket as Connection)[LAST]?.deref()
}

/**
 * Returns the response that must be complete before this request runs: that of the request before
 * it on the same connection (pipelining, RFC 9112 section 9.3.2). Node emits all requests of one
 * read at once. Call it once before a handler runs.
 */
export function responseBefore(req: HostRequest, res: SeenResponse): ServerResponse | undefined {
  // A middleware and a handler of longhaul may both see the same request.
  if (req.httpVersionMajor > 1 || res[SEEN]) return undefined
  res[SEEN] = true
  const socket: Connection = req.socket
  const before = socket[LAST]
  socket[LAST] = new WeakRef(res)
  if (res.socket !== null) return undefined
  const last = before?.deref()
  return last?.destroyed === false ? last : undefined
}

/**
 * Calls `run` once the response `before` has been sent, unless the connection has ended. Closes a
 * connection on which too many requests wait.
 */
export function runAfter(
  before: ServerResponse, req: HostRequest, res: HostResponse, run: () => void,
): void {
  const socket: Connection = req.socket
  const waiting = socket[WAITING] ?? 0
  if (waiting >= MAX_WAITING || waitingInAll >= MAX_WAITING_IN_ALL) {
    socket.destroy()
    return
  }
  // Node emits no `close` for responses that wait behind others when their connection closes.
  if (socket[WAITING] === undefined) socket.once('close', () => { noteDone(socket, Infinity) })
  socket[WAITING] = waiting + 1
  waitingInAll++
  // In the async context of this request, and not of the request before.
  before.once('close', AsyncResource.bind(() => {
    noteDone(socket, 1)
    // After a response that ends the connection it is no longer writable (RFC 9112 section 9.6).
    if (socket.writable && !isGone(req, res)) run()
  }))
}

function noteDone(socket: Connection, count: number): void {
  const done = Math.min(count, socket[WAITING] ?? 0)
  socket[WAITING] = (socket[WAITING] ?? 0) - done
  waitingInAll -= done
}
