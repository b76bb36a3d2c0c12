import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { guard } from '../../src/http/boundary.js'
import { httpError, type HttpError } from '../../src/http/errors.js'
import {
  compose, type Handler, type HttpRequest, type HttpResponse, type Policy,
} from '../../src/http/exchange.js'
import type { ContextArguments } from '../../src/http/request.js'
import type { MaybePromise } from '../../src/runtime/maybe-promise.js'
import { checkNames } from '../../src/runtime/option-names.js'
import { Binding, NODE_OPTIONS, type NodeOptions } from './binding.js'
import type { Next } from './host.js'
import { lastResponse } from './in-turn.js'
import { limitSending, type NodeServer } from './limit-sending.js'
import { answerRaw, bareRequest } from './raw-answer.js'

/** Options of `attach`, beside those of `toNode`. */
export interface AttachOptions<C = unknown> extends NodeOptions<C> {
  /**
   * Policies around answers to requests that never reach the handler: a request that cannot be
   * parsed, an unknown expectation, a CONNECT without `connect`. With `requestId()` and
   * `rateLimit()` such answers have their fields. Default: none.
   */
  readonly policies?: readonly Policy<C>[]
  /**
   * Cuts connections whose clients have read nothing for so long, in milliseconds; see
   * `limitSending`. Default: never.
   */
  readonly sendTimeoutMs?: number
  /**
   * Opens a tunnel (RFC 9110 section 9.3.6). The function owns the socket and its errors; `head`
   * holds the bytes behind the request. If it throws, the socket is destroyed and `onError` gets
   * the error. Default: 501 `not_implemented`.
   */
  readonly connect?: (req: IncomingMessage, socket: Duplex, head: Buffer) => void | Promise<void>
}

const KNOWN = {
  ...NODE_OPTIONS, sendTimeoutMs: 0, connect: 0, policies: 0,
} satisfies Record<keyof AttachOptions, 0>
type Listener = (...args: never[]) => void

/**
 * Connects a server of node:http to a handler, with the events that a plain listener does not get:
 *
 * - `request`: what the handler declines goes to the listeners that the server had before, or is a
 * 404;
 * - `checkContinue`: `100 Continue` is sent once the handler reads the body;
 * - `checkExpectation`: 417 `expectation_failed` for anything but `100-continue`;
 * - `connect`: 501 `not_implemented`, or `options.connect`;
 * - `clientError`: 501 for a method that Node's parser does not know, 431 for too large a head, 408
 * for too slow a request, 400 for others. Each has the error body. Nothing is written into an
 * answer that has begun.
 *
 * Existing listeners for `connect`, `checkExpectation` and `clientError` stay in charge. `upgrade`
 * is not touched.
 *
 * @example
 * const detach = attach(server, handler, { policies: [requestId()], sendTimeoutMs: 120_000 })
 *
 * @returns a function that restores the server
 * @throws {TypeError} The handler is not a function, or an option is not valid or unknown.
 */
export function attach<C = unknown>(
  server: NodeServer, handler: Handler<C>,
  ...[options = {}]: ContextArguments<C, AttachOptions<C>>
): () => void {
  checkNames('attach', options, KNOWN)
  const binding = new Binding(handler, options)
  const { policies = [], onError, context } = options
  const refuser = (error: HttpError): Handler<C> =>
    guard(compose<C>(...policies, () => { throw error }), { onError })
  const refuse = (error: HttpError, request: HttpRequest, req?: IncomingMessage): MaybePromise<HttpResponse | undefined> =>
    refuser(error)(request.with({ context: (req && context ? context(req) : {}) as C }))
  const unlimited = options.sendTimeoutMs === undefined
    ? undefined
    : limitSending(server, options.sendTimeoutMs)
  const before = takeListeners(server, 'request')
  const beforeContinue = takeListeners(server, 'checkContinue')

  const goOn = (listeners: readonly Listener[], req: IncomingMessage, res: ServerResponse): void => {
    for (const listener of listeners) Reflect.apply(listener, server, [req, res])
  }
  const request = (req: IncomingMessage, res: ServerResponse): void => {
    const next: Next | undefined = before.length === 0 ? undefined : () => goOn(before, req, res)
    binding.run(req, res, undefined, next, false)
  }
  const checkContinue = (req: IncomingMessage, res: ServerResponse): void => {
    const next = (): void => {
      if (beforeContinue.length > 0) return goOn(beforeContinue, req, res)
      res.writeContinue()
      goOn(before, req, res)
    }
    const declined = before.length + beforeContinue.length === 0 ? undefined : next
    binding.run(req, res, undefined, declined, true)
  }
  const checkExpectation = (req: IncomingMessage, res: ServerResponse): void => {
    binding.respond(req, res, refuser(httpError('expectation_failed')))
  }
  const connect = (req: IncomingMessage, socket: Duplex, head: Buffer): void => {
    if (options.connect === undefined) answerRaw(socket, refuse(httpError('not_implemented'), bareRequest(req.headers, 'CONNECT', req.url, req.socket.remoteAddress), req))
    else void tunnel(options, req, socket, head)
  }

  const added: [string, Listener][] = [['request', request], ['checkContinue', checkContinue]]
  const clientError = (failure: ParseFailure, socket: Duplex): void => {
    whenFree(failure, socket, () => answerRaw(socket, refuse(parseError(failure), bareRequest({}, '', '', (socket as Partial<Socket>).remoteAddress))))
  }
  if (server.listenerCount('clientError') === 0) added.push(['clientError', clientError])
  if (server.listenerCount('checkExpectation') === 0) {
    added.push(['checkExpectation', checkExpectation])
  }
  if (options.connect !== undefined || server.listenerCount('connect') === 0) {
    added.push(['connect', connect])
  }
  for (const [event, listener] of added) server.on(event, listener as never)

  return () => {
    unlimited?.()
    for (const [event, listener] of added) server.off(event, listener as never)
    for (const listener of before) server.on('request', listener as never)
    for (const listener of beforeContinue) server.on('checkContinue', listener as never)
  }
}

function takeListeners(server: NodeServer, event: string): Listener[] {
  const listeners = server.rawListeners(event) as Listener[]
  for (const listener of listeners) server.off(event, listener as never)
  return listeners
}

/** Answers what never became a request, where no other answer is on its way. */
function whenFree(failure: ParseFailure, socket: Duplex, answer: () => void): void {
  const last = lastResponse(socket)
  const free = last === undefined || last.writableFinished
    || (last.socket !== null && !last.headersSent)
  if (failure.code === 'ECONNRESET') socket.destroy()
  else if (free) answer()
  // Both came in one packet: the answer to the good request is on its way.
  else if (last.writableEnded && last.socket !== null) last.once('finish', answer)
  // Bytes in the middle of another answer would be read as a part of it.
  else socket.destroy()
}

async function tunnel<C>(
  options: AttachOptions<C>, req: IncomingMessage, socket: Duplex, head: Buffer,
): Promise<void> {
  try {
    await options.connect?.(req, socket, head)
  } catch (error) {
    socket.on('error', () => {})
    socket.destroy()
    const { onError } = options
    void guard(() => { throw error }, { onError })(bareRequest(req.headers, req.method, req.url))
  }
}

/** Node's error for a request that it could not parse, or that took too long. */
export interface ParseFailure extends Error {
  readonly code?: string
  readonly rawPacket?: Buffer
  readonly bytesParsed?: number
}

/** The answer for what Node's parser refused. */
export function parseError(failure: ParseFailure): HttpError {
  switch (failure.code) {
    case 'HPE_INVALID_METHOD':
      return httpError(namesMethod(failure) ? 'not_implemented' : 'bad_request')
    case 'HPE_HEADER_OVERFLOW':
      return httpError('header_fields_too_large')
    case 'HPE_CHUNK_EXTENSIONS_OVERFLOW':
      return httpError('body_too_large')
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return httpError('request_timeout')
    default:
      return httpError('bad_request')
  }
}

/**
 * Returns whether the parser stopped at a well-formed method that it does not know (RFC 9110
 * section 9.1), and not at garbage such as a TLS hello. The packet may hold earlier requests, so
 * the line where it stopped counts.
 */
function namesMethod({ rawPacket, bytesParsed }: ParseFailure): boolean {
  if (rawPacket === undefined) return false
  const start = rawPacket.lastIndexOf(0x0a, Math.max(0, (bytesParsed ?? 0) - 1)) + 1
  return /^[\w!#$%&'*+.^`|~-]+(?: |$)/.test(rawPacket.toString('latin1', start, start + 256))
}
