import { ServerResponse, type OutgoingHttpHeader, type OutgoingHttpHeaders } from 'node:http'
import type { HttpResponse, ResponseHeaders } from '../../src/http/exchange.js'
import type { HostRequest, HostResponse } from './host.js'
import { isFieldValue } from '../../src/http/fields/reader.js'

const node: Pick<ServerResponse, 'writeHead'> = ServerResponse.prototype

/**
 * Fields to which the host and the handler may both contribute; of any other the handler's wins.
 */
const LISTS = new Set(['vary', 'access-control-expose-headers', 'ratelimit', 'ratelimit-policy'])
const LINES = new Set(['set-cookie', 'link'])

/** Returns whether the status or the method rules out content (RFC 9110 section 6.4.1). */
export function hasNoContent(req: HostRequest, status: number): boolean {
  return req.method === 'HEAD' || status === 204 || status === 304
}

/**
 * Writes the head of an answer. `length` becomes `Content-Length`; without it the handler's own
 * stays, except where the status allows none. `close` ends the connection after the answer.
 */
export function writeHead(
  res: HostResponse, answer: HttpResponse, length: number | undefined, close: boolean,
): void {
  const { status, headers } = answer
  const drop = length !== undefined || status === 204 || status === 304
  // Middleware that patches writeHead (on-headers before 1.1) misreads flat lists, and headers that
  // the host has set already need care. Otherwise a flat list is the fastest way that Node has.
  if (res.writeHead === node.writeHead && res.getHeaderNames().length === 0) {
    res.writeHead(status, flat(headers, drop, length, close))
  } else {
    res.writeHead(status, merged(res, headers, drop, length, close))
  }
}

function flat(
  headers: ResponseHeaders, drop: boolean, length: number | undefined, close: boolean,
): OutgoingHttpHeader[] {
  const list: OutgoingHttpHeader[] = []
  for (const name in headers) {
    if (!drop || name !== 'content-length') list.push(name, headers[name] as OutgoingHttpHeader)
  }
  if (length !== undefined) list.push('content-length', length)
  if (close) list.push('connection', 'close')
  return list
}

function merged(
  res: HostResponse,
  headers: ResponseHeaders,
  drop: boolean,
  length: number | undefined,
  close: boolean,
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

/**
 * Joins the values that the host and the answer have for one field. `undefined` if only one of them
 * may have the field.
 */
export function together(
  name: string, set: OutgoingHttpHeader | undefined, value: string | string[],
): OutgoingHttpHeader | undefined {
  if (set === undefined) return value
  if (LISTS.has(name)) return joined([set, value].flat())
  return LINES.has(name) ? [...new Set([set, value].flat().map(String))] : undefined
}

/** A list field with every member once, whatever its case. */
function joined(values: readonly (number | string)[]): string {
  const members = new Map<string, string>()
  for (const part of values.join(',').split(',')) {
    const member = part.trim()
    if (member !== '' && !members.has(member.toLowerCase())) {
      members.set(member.toLowerCase(), member)
    }
  }
  return [...members.values()].join(', ')
}

/**
 * Calls `act` just before the head of a host's answer is sent, by `writeHead` in any form, or by
 * the first write, end or flush. All fields of the host are set by then, so `act` may read, join
 * and add fields.
 */
export function atHead(res: HostResponse, act: () => void): void {
  const write = res.writeHead.bind(res) as (...args: unknown[]) => ServerResponse
  const writeHead = (status: unknown, ...rest: unknown[]): ServerResponse => {
    if (res.headersSent) return write(status, ...rest)
    const [first, second] = rest
    setAll(res, typeof first === 'string' ? second : second ?? first)
    act()
    // A host whose first try is refused here (a bad status) comes again with its error page.
    return typeof first === 'string' ? write(status, first) : write(status)
  }
  res.writeHead = writeHead
}

/**
 * Arguments of `writeHead`: an object, a flat list of names and values, or a list of pairs. Of a
 * list the second of a name is added.
 */
function setAll(res: HostResponse, fields: unknown): void {
  if (!Array.isArray(fields)) {
    for (const [name, value] of Object.entries((fields ?? {}) as OutgoingHttpHeaders)) res.setHeader(name, value as string)
    return
  }
  const list: unknown[] = Array.isArray(fields[0]) ? fields.flat(1) : fields
  const names = new Set<string>()
  for (let at = 0; at < list.length; at += 2) {
    const [name, value] = [String(list[at]), list[at + 1] as string | string[]]
    if (names.has(name.toLowerCase())) res.appendHeader(name, value)
    else res.setHeader(name, value)
    names.add(name.toLowerCase())
  }
}

/** Parts of a response of node:http that send informational responses. */
interface Informing {
  /** HTTP/2 only. */
  readonly stream?: { additionalHeaders?(headers: Record<string, unknown>): void }
  /** HTTP/1.1 only. `writeContinue` and `writeProcessing` of node:http use it. */
  _writeRaw?(head: string, encoding: 'latin1'): boolean
}

const PHRASES: Readonly<Record<number, string>> = { 104: 'Upload Resumption Supported' }

/**
 * Sends an informational response (RFC 9110 section 15.2). node:http has functions for 100, 102 and
 * 103 only. Sends nothing to a client of HTTP/1.0, which may not get one, nor after the head of the
 * final response.
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
    [value].flat().filter(isFieldValue).map((text) => `${name}: ${text}\r\n`)
  ))
  out._writeRaw(`HTTP/1.1 ${status} ${PHRASES[status] ?? ''}\r\n${lines.join('')}\r\n`, 'latin1')
}
