import { AsyncResource } from 'node:async_hooks'
import { ServerResponse, type IncomingMessage } from 'node:http'
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
 * Maximum number of waiting requests of one connection. One read (64 KiB) has at most 2,600
 * requests.
 */
const MAX_WAITING = 3000
/** Maximum number of waiting requests of all connections. Each takes some 4 KiB. */
const MAX_WAITING_IN_ALL = 10_000
let waitingInAll = 0

const WAITING = Symbol('longhaul.waiting')

type Connection = Duplex & { [WAITING]?: number, _httpMessage?: ServerResponse | null }

/**
 * Returns true if responses to earlier requests come first on this connection (pipelining, RFC 9112
 * section 9.3.2). Node emits all requests of one read at once, and gives each response the socket
 * when its turn comes.
 */
export function isBehind(req: HostRequest, res: HostResponse): boolean {
  return res.socket === null && req.httpVersionMajor === 1 && res instanceof ServerResponse
    && !res.writableEnded && !res.destroyed
}

/**
 * Calls `run` when it is the turn of a response, unless the connection has ended. Closes a
 * connection on which too many requests wait.
 */
export function runInTurn(req: HostRequest, res: HostResponse, run: () => void): void {
  const socket: Connection = req.socket
  // Middleware has taken longer than the client has stayed, so no `close` will end a count.
  if (socket.destroyed) return
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
  res.once('socket', AsyncResource.bind(() => {
    noteDone(socket, 1)
    // Node writes what the response has buffered, before a handler may end the response.
    process.nextTick(() => {
      // After a response that ends the connection it is no longer writable (RFC 9112 section 9.6).
      if (socket.writable && !isGone(req, res)) run()
    })
  }))
}

/** Returns the response whose turn it is on a connection. All others of the connection wait for it. */
export function currentResponse(socket: Duplex): ServerResponse | undefined {
  return (socket as Connection)._httpMessage ?? undefined
}

function noteDone(socket: Connection, count: number): void {
  const done = Math.min(count, socket[WAITING] ?? 0)
  socket[WAITING] = (socket[WAITING] ?? 0) - done
  waitingInAll -= done
}
