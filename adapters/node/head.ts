import { ServerResponse, type OutgoingHttpHeader, type OutgoingHttpHeaders } from 'node:http'
import type { HttpResponse, ResponseHeaders } from '../../src/http/exchange.js'
import type { HostRequest, HostResponse } from './host.js'

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
