import {
  ServerResponse, validateHeaderName, validateHeaderValue, type OutgoingHttpHeader,
  type OutgoingHttpHeaders,
} from 'node:http'
import type { HttpResponse, ResponseHeaders } from '../../src/http/exchange.js'
import type { HostRequest, HostResponse } from './host.js'
import { isHeaderValue, joinLists } from '../../src/http/headers/reader.js'

const node: Pick<ServerResponse, 'writeHead'> = ServerResponse.prototype

const LISTS = new Set(['vary', 'access-control-expose-headers', 'ratelimit', 'ratelimit-policy'])
const LINES = new Set(['set-cookie', 'link'])

export function isList(name: string): boolean {
  return LISTS.has(name) || LINES.has(name)
}

export function checkHeader(name: string, value: string | string[]): void {
  validateHeaderName(name)
  if (Array.isArray(value)) for (const each of value) validateHeaderValue(name, each)
  else validateHeaderValue(name, value)
}

export function hasNoContent(req: HostRequest, status: number): boolean {
  return req.method === 'HEAD' || status === 204 || status === 304
}

/**
 * @param length - the `Content-Length`; `undefined` keeps that of the handler
 * @param close - ends the connection after the response
 */
export function writeHead(
  res: HostResponse, { status, headers }: HttpResponse, length: number | undefined, close: boolean,
): void {
  const drop = length !== undefined || status === 204 || status === 304
  // A flat list is the fastest way that Node has. Middleware that patches writeHead (on-headers
  // before 1.1) misreads it, and headers that are set already have to be joined.
  if (res.writeHead === node.writeHead && res.getHeaderNames().length === 0) {
    const list: OutgoingHttpHeader[] = []
    for (const name in headers) {
      if (!drop || name !== 'content-length') list.push(name, headers[name] as OutgoingHttpHeader)
    }
    if (length !== undefined) list.push('content-length', length)
    if (close) list.push('connection', 'close')
    res.writeHead(status, list)
  } else {
    res.writeHead(status, merged(res, headers, { drop, length, close }))
  }
}

interface Framing {
  /** `true` if the length of the handler is not sent. */
  readonly drop: boolean
  readonly length: number | undefined
  readonly close: boolean
}

function merged(
  res: HostResponse, headers: ResponseHeaders, { drop, length, close }: Framing,
): OutgoingHttpHeaders {
  const all: OutgoingHttpHeaders = {}
  for (const [name, value] of Object.entries(headers)) {
    if (drop && name === 'content-length') continue
    all[name] = together(name, res.getHeader(name), value) ?? value
  }
  res.removeHeader('content-length')
  if (length !== undefined) all['content-length'] = length
  if (close) all['connection'] = 'close'
  return all
}

/** Joins two values of a header. Returns `undefined` if the header has only one value. */
export function together(
  name: string, set: OutgoingHttpHeader | undefined, value: string | string[],
): OutgoingHttpHeader | undefined {
  if (set === undefined) return value
  if (LISTS.has(name)) return joinLists([set, value].flat().map(String))
  return LINES.has(name) ? [...new Set([set, value].flat().map(String))] : undefined
}

/** Calls `act` just before the headers of a response of your framework are sent in any way. */
export function atHead(res: HostResponse, act: () => void): void {
  const write = res.writeHead.bind(res) as (...args: unknown[]) => ServerResponse
  const writeHead = (status: unknown, ...rest: unknown[]): ServerResponse => {
    if (res.headersSent) return write(status, ...rest)
    const [first, second] = rest
    setAll(res, typeof first === 'string' ? second : second ?? first)
    act()
    // If Node throws here because of the status, the framework calls again for its error page.
    return typeof first === 'string' ? write(status, first) : write(status)
  }
  res.writeHead = writeHead
}

/** Sets the headers that `writeHead` got: an object, a flat list of names and values, or pairs. */
function setAll(res: HostResponse, headers: unknown): void {
  if (!Array.isArray(headers)) {
    for (const [name, value] of Object.entries((headers ?? {}) as OutgoingHttpHeaders)) {
      res.setHeader(name, value as string)
    }
    return
  }
  const list: unknown[] = Array.isArray(headers[0]) ? headers.flat(1) : headers
  const names = new Set<string>()
  for (let at = 0; at < list.length; at += 2) {
    const [name, value] = [String(list[at]), list[at + 1] as string | string[]]
    if (names.has(name.toLowerCase())) res.appendHeader(name, value)
    else res.setHeader(name, value)
    names.add(name.toLowerCase())
  }
}

interface Informing {
  /** HTTP/2 only. */
  readonly stream?: { additionalHeaders?(headers: Record<string, unknown>): void }
  /** HTTP/1.1 only. `writeContinue` and `writeProcessing` of node:http use it. */
  _writeRaw?(head: string, encoding: 'latin1'): boolean
}

const PHRASES: Readonly<Record<number, string>> = { 104: 'Upload Resumption Supported' }

/**
 * Sends an informational response (RFC 9110 section 15.2). node:http can send 100, 102 and 103
 * only.
 */
export function sendInformation(
  req: HostRequest, res: HostResponse, status: number, headers: ResponseHeaders,
): void {
  if (res.headersSent || res.destroyed || req.socket.destroyed) return
  const out = res as HostResponse & Informing
  if (req.httpVersionMajor > 1) {
    out.stream?.additionalHeaders?.({ ':status': status, ...headers })
    return
  }
  if (req.httpVersionMinor === 0 || typeof out._writeRaw !== 'function') return
  const lines = Object.entries(headers).flatMap(([name, value]) => (
    [value].flat().filter(isHeaderValue).map((text) => `${name}: ${text}\r\n`)
  ))
  out._writeRaw(`HTTP/1.1 ${status} ${PHRASES[status] ?? ''}\r\n${lines.join('')}\r\n`, 'latin1')
}
