import type { IncomingMessage, ServerResponse } from 'node:http'
import type { HttpRequest } from '../../src/http/exchange.js'

/**
 * Key under which a request of a host holds what `toMiddleware` has handed on; the same in every
 * copy of this package.
 */
export const HANDED_ON: unique symbol = Symbol.for('longhaul.handedOn') as never

/** A request of node:http, with what Express, Connect, Passport and body parsers hang on it. */
export interface HostRequest extends IncomingMessage {
  originalUrl?: string
  baseUrl?: string
  params?: unknown
  body?: unknown
  user?: unknown
  [HANDED_ON]?: HttpRequest
}

/** A response of node:http; `flush` is the one that the `compression` middleware adds. */
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
