import { STATUS_CODES, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { guard } from '../../src/http/boundary.js'
import { cutShort } from '../../src/http/body/source.js'
import { httpError, type HttpError } from '../../src/http/errors.js'
import {
  compose, type Handler, type HttpRequest, type HttpResponse, type Policy, type RequestHeaders,
} from '../../src/http/exchange.js'
import { isHeaderValue } from '../../src/http/headers/reader.js'
import { plainRequest, type ContextArguments } from '../../src/http/request.js'
import { after, type MaybePromise } from '../../src/runtime/maybe-promise.js'
import { readOptions, value, type OptionTable } from '../../src/runtime/options.js'
import { bodyOf } from './body.js'
import { Binding, NODE_OPTIONS, type NodeOptions } from './binding.js'
import { currentResponse } from './host.js'
import { limitSending, SEND_TIMEOUT, type NodeServer } from './limit-sending.js'
import { takeTurns, type ParseFailure } from './socket-turns.js'
import { setGlobalTimeout } from '../../src/runtime/timers.js'

/** Options of `attach`, beside those of `toNode`. */
export interface AttachOptions<C = unknown> extends NodeOptions<C> {
  /**
   * Policies around responses to requests that never reach the handler, such as one that cannot be
   * parsed or CONNECT: `requestId()`, `rateLimit()`. Default: none.
   */
  readonly policies?: readonly Policy<C>[]
  /**
   * Time after which a client that reads nothing is disconnected, in milliseconds; see
   * `limitSending`. Default: never.
   */
  readonly sendTimeoutMs?: number
}

const OPTIONS = {
  ...NODE_OPTIONS,
  policies: value<never>('an array of policies', Array.isArray),
  sendTimeoutMs: SEND_TIMEOUT,
} satisfies OptionTable<AttachOptions>

type Listener = (...args: never[]) => void

/** An option of `createServer`, which the server keeps. */
type HostRule = NodeServer & { requireHostHeader?: boolean }

/** Servers that require `Host`, and whose check of `Host` is done by `attach`. */
const checked = new WeakSet<NodeServer>()

/**
 * Connects a server of node:http to a handler, with the events that a plain listener does not get:
 *
 * - `request`: if the handler declines, calls the listeners that the server had before, else sends
 *   a 404;
 * - `checkContinue`: `100 Continue` is sent once the handler reads the body;
 * - `checkExpectation`: 417 `expectation_failed` for anything but `100-continue`;
 * - `connect`: 501 `not_implemented`;
 * - `clientError`: 501 for a method that Node's parser does not know, 431 if the headers are too
 *   large, 408 if the request is too slow, else 400. If the handler is reading the body, reading
 *   fails with `incomplete_body`, and the client gets the response of the handler.
 *
 * A request without `Host` gets a 400 `bad_request`, if the server requires the header.
 *
 * If the server has listeners for one of the last three events, they stay, and none is added.
 * Responses leave in the order of their requests (RFC 9112 section 9.3.2): the listeners of
 * `connect`, `upgrade` and `clientError`, those of your application included, are called when the
 * responses before have been sent.
 * @example
 * const detach = attach(server, handler, { policies: [requestId()], sendTimeoutMs: 120_000 })
 * @returns a function that restores the server
 * @throws {TypeError} The handler or a policy is not a function, the order of policies would not
 * work (see `compose`), or an option is not valid or unknown.
 */
export function attach<C = unknown>(
  server: NodeServer, handler: Handler<C>, ...[options = {}]: ContextArguments<C, AttachOptions<C>>
): () => void {
  const { policies = [], onError, context, sendTimeoutMs } = readOptions('attach', options, OPTIONS)
  // Now, because it would throw where nobody catches.
  compose<C>(...policies, () => undefined)
  const rejecting = (error: unknown): Handler<C> =>
    guard(compose<C>(...policies, () => { throw error }), { onError })
  const binding = new Binding(handler, options, { rejecting })
  const takesCheck = (server as HostRule).requireHostHeader === true
  const stopLimit = sendTimeoutMs === undefined ? undefined : limitSending(server, sendTimeoutMs)
  const before = takeListeners(server, 'request')
  const beforeContinue = takeListeners(server, 'checkContinue')
  const checksHost = takesCheck || checked.has(server)
  const added: Record<string, Listener> = requestListeners(server, binding, checksHost, { before, beforeContinue })
  const rejections: Record<string, Listener> = {
    checkExpectation: withHost(checksHost, binding, (req: IncomingMessage, res: ServerResponse) => {
      binding.reject(req, res, httpError('expectation_failed'))
    }),
    ...rawListeners(rejecting, (req) => (context ? context(req) : {}) as C),
  }
  for (const event in rejections) {
    if (server.listenerCount(event) === 0) added[event] = rejections[event] as Listener
  }
  for (const event in added) server.on(event, added[event] as never)
  const endTurns = takeTurns(server)
  if (takesCheck) {
    (server as HostRule).requireHostHeader = false
    checked.add(server)
  }

  return () => {
    stopLimit?.()
    endTurns()
    if (takesCheck) {
      (server as HostRule).requireHostHeader = true
      checked.delete(server)
    }
    for (const event in added) server.off(event, added[event] as never)
    for (const listener of before) server.on('request', listener as never)
    for (const listener of beforeContinue) server.on('checkContinue', listener as never)
  }
}

type RequestListener = (req: IncomingMessage, res: ServerResponse) => void

/** Wraps a listener. Rejects a request that Node would give an empty 400 (RFC 9112 section 3.2). */
function withHost<C>(checksHost: boolean, binding: Binding<C>, listener: RequestListener): RequestListener {
  if (!checksHost) return listener
  return (req, res) => {
    const isNeeded = req.httpVersionMajor === 1 && req.httpVersionMinor !== 0
    if (req.headers.host !== undefined || !isNeeded) return listener(req, res)
    binding.reject(req, res, httpError('bad_request', { message: 'The request has no Host header.' }))
  }
}

/** Listeners that a server had. */
interface Before {
  readonly before: readonly Listener[]
  readonly beforeContinue: readonly Listener[]
}

/**
 * Returns the listeners that pass requests to the handler, and then to the listeners that the
 * server had before.
 */
function requestListeners<C>(
  server: NodeServer, binding: Binding<C>, checksHost: boolean, { before, beforeContinue }: Before,
): Record<string, Listener> {
  const call = (listeners: readonly Listener[], req: IncomingMessage, res: ServerResponse): void => {
    for (const listener of listeners) Reflect.apply(listener, server, [req, res])
  }
  return {
    request: withHost(checksHost, binding, (req, res) => {
      const next = before.length === 0 ? undefined : () => { call(before, req, res) }
      binding.run(req, res, { next })
    }),
    checkContinue: withHost(checksHost, binding, (req, res) => {
      const next = (): void => {
        if (beforeContinue.length > 0) return call(beforeContinue, req, res)
        res.writeContinue()
        call(before, req, res)
      }
      const isLast = before.length + beforeContinue.length === 0
      binding.run(req, res, { next: isLast ? undefined : next, isWaiting: true })
    }),
  }
}

/**
 * Returns the listeners that respond on a socket to anything other than a request of the handler.
 */
function rawListeners<C>(
  rejecting: (error: unknown) => Handler<C>, contextOf: (req: IncomingMessage) => C,
): Record<string, Listener> {
  return {
    connect(req: IncomingMessage, socket: Duplex) {
      const request = bareRequest(req.socket, contextOf(req), req)
      respondRaw(socket, rejecting(httpError('not_implemented'))(request))
    },
    clientError(failure: ParseFailure, socket: Duplex) {
      // The parser reports each later packet of the same connection too.
      if (failed.has(socket)) return
      failed.add(socket)
      const respond = (): void => {
        const request = bareRequest(socket as Partial<Socket>, {} as C)
        respondRaw(socket, rejecting(parseError(failure))(request))
      }
      const current = currentResponse(socket)
      if (failure.code === 'ECONNRESET') socket.destroy()
      else if (current === undefined) respond()
      else if (breaksBody(failure, current, respond)) return
      else if (!current.headersSent) respond()
      // Bytes in the middle of another response would be read as a part of it.
      else socket.destroy()
    },
  }
}

function takeListeners(server: NodeServer, event: string): Listener[] {
  const listeners = server.rawListeners(event) as Listener[]
  for (const listener of listeners) server.off(event, listener as never)
  return listeners
}

/** Connections with a request that could not be parsed, or that took too long. */
const failed = new WeakSet<Duplex>()

/**
 * Time in which the response to a request with a broken body has to be sent. A client that has
 * disconnected looks like one that has half closed its connection, and work for it should stop.
 */
const BROKEN_MS = 5000

/**
 * If a handler may read the body that is malformed or too late, makes reading fail and returns true:
 * the handler responds, because it may have done a part of the work. Calls `respond` if the handler
 * has not begun to read or to respond in time.
 */
function breaksBody(
  failure: ParseFailure, response: ServerResponse, respond: () => void,
): boolean {
  const body = bodyOf(response)
  if (body?.canBreak !== true) return false
  const { socket } = response
  const error = parseError(failure)
  body.break(error.code === 'bad_request' ? cutShort() : error)
  const timer = setGlobalTimeout(() => {
    // The handler may have passed the request on to another one.
    const now = bodyOf(response)
    if (now?.begun === true || response.headersSent) {
      socket?.destroy()
      return
    }
    now?.stop()
    respond()
  }, BROKEN_MS).unref()
  socket?.once('close', () => { clearTimeout(timer) })
  return true
}

function parseError(failure: ParseFailure): HttpError {
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
 * Returns true if the parser stopped at a well-formed method that it does not know (RFC 9110
 * section 9.1). The packet may contain earlier requests, so the line where the parser stopped
 * counts.
 */
function namesMethod({ rawPacket, bytesParsed }: ParseFailure): boolean {
  if (rawPacket === undefined) return false
  const start = rawPacket.lastIndexOf(0x0a, Math.max(0, (bytesParsed ?? 0) - 1)) + 1
  return /^[\w!#$%&'*+.^`|~-]+(?: |$)/.test(rawPacket.toString('latin1', start, start + 256))
}

function bareRequest<C>(
  { remoteAddress }: { readonly remoteAddress?: string | undefined }, context: C,
  req?: IncomingMessage,
): HttpRequest<C> {
  const headers: RequestHeaders = req?.headers ?? {}
  return plainRequest({
    method: req?.method ?? '', path: req?.url ?? '', mountPath: '', params: {},
    query: new URLSearchParams(), headers,
    body: { parsed: undefined, bytes: async () => new Uint8Array(0), stream: nothing },
    signal: AbortSignal.abort(), context, peerAddress: remoteAddress, raw: undefined,
  })
}

const LEAVE_MS = 1000

/** Writes a response to a connection for which Node has no response object, and ends it. */
function respondRaw(socket: Duplex, response: MaybePromise<HttpResponse | undefined>): void {
  // A reset without a listener would end the process.
  socket.on('error', () => {})
  void after(response, (made = { status: 501, headers: {} }) => {
    if (socket.destroyed || !socket.writable) {
      socket.destroy()
      return
    }
    socket.end(wireText(made))
    const timer = setGlobalTimeout(() => socket.destroy(), LEAVE_MS).unref()
    socket.once('close', () => { clearTimeout(timer) })
    socket.resume()
  })
}

function wireText({ status, headers, body }: HttpResponse): string {
  const text = typeof body === 'string' ? body : ''
  const length = String(Buffer.byteLength(text))
  const lines = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Error'}`, `date: ${new Date().toUTCString()}`,
  ]
  const all = { connection: 'close', ...headers, 'content-length': length }
  for (const [name, values] of Object.entries(all)) {
    for (const line of [values].flat()) {
      if (isHeaderValue(line)) lines.push(`${name}: ${line}`)
    }
  }
  return `${lines.join('\r\n')}\r\n\r\n${text}`
}

async function* nothing(): AsyncGenerator<Uint8Array> {}
