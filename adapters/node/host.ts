import type { IncomingMessage, ServerResponse } from 'node:http'
import type { HttpRequest, RequestHeaders } from '../../src/http/exchange.js'

/** Key of the request that `toMiddleware` has passed on. The same in every copy of this package. */
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

/** Returns true if the connection is closed, so that no response can be sent. */
export function isGone(req: HostRequest, res: HostResponse): boolean {
  return res.destroyed || req.socket.destroyed
}

/**
 * Calls `left` once, when the exchange is over or its connection closes. A response that waits behind
 * another one gets no `close` event from Node, so the connection is watched then.
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

/**
 * Headers that have one value and that a decision depends on. If one of them is repeated, Node
 * keeps the first value silently. Other servers and proxies may have read the last one.
 */
const SINGLE = [
  'host', 'authorization', 'proxy-authorization', 'content-type', 'if-modified-since',
  'if-unmodified-since',
]
const LENGTHS = SINGLE.reduce((bits, { length }) => bits | (1 << length), 0)

/**
 * Returns the headers of a request as Node gives them, except that a repeated header of `SINGLE` is
 * a list of all its values. Handlers do not accept a list there.
 */
export function headersOf({ headers, rawHeaders }: IncomingMessage): RequestHeaders {
  let seen = 0
  let repeated = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] as string
    if (((LENGTHS >> name.length) & 1) === 0) continue
    const index = SINGLE.indexOf(name.toLowerCase())
    if (index < 0) continue
    repeated |= seen & (1 << index)
    seen |= 1 << index
  }
  return repeated === 0 ? headers : withLists(headers, rawHeaders, repeated)
}

function withLists(
  headers: RequestHeaders, rawHeaders: readonly string[], repeated: number,
): RequestHeaders {
  const lists = Object.create(null) as Record<string, string[] | undefined>
  SINGLE.forEach((name, at) => {
    if ((repeated & (1 << at)) !== 0) lists[name] = []
  })
  for (let at = 0; at < rawHeaders.length; at += 2) {
    lists[(rawHeaders[at] as string).toLowerCase()]?.push(rawHeaders[at + 1] as string)
  }
  return { ...headers, ...lists }
}
