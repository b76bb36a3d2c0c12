import type { ResponseHeaders } from '../../src/http/exchange.js'
import { isFieldValue } from '../../src/http/fields/fields.js'
import type { HostRequest, HostResponse } from './host.js'

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
