import type { HostRequest } from './host.js'
import type { NodeRequest } from './request.js'

/**
 * Up to this size, the rest of a body is read and dropped, so that the connection can go on
 * being used.
 */
const WORTH_KEEPING = 64 * 1024

/**
 * After that: for how long, and how much, an unread body is let run before the connection is cut.
 */
const LINGER_MS = 5000
const LINGER_IDLE_MS = 1000
const LINGER_BYTES = 256 * 1024 * 1024

/**
 * Returns whether the answer leaves so much of the request unread that the connection has to be
 * closed after it (RFC 9112 section 9.3). A body that somebody is still reading is not unread.
 */
export function leavesBody(call: NodeRequest<unknown>): boolean {
  const { req, body } = call
  if (req.complete || body.reading || req.httpVersionMajor > 1) return false
  const { headers } = req
  if (headers['transfer-encoding'] !== undefined) return true
  const declared = headers['content-length']
  return declared !== undefined && (body.waiting || Number(declared) > WORTH_KEEPING)
}

/**
 * Lets the rest of a small body run off, which Node does by itself only when nobody began to read
 * it.
 */
export function dropRest(call: NodeRequest<unknown>): void {
  const { req, body } = call
  if (body.begun && !body.reading && !req.readableEnded) req.resume()
}

/**
 * Calls `done` when the client has stopped sending (`true`: it sent all), or when it has had its
 * chance to. Closing at once would make the kernel send a reset, and the client could lose the
 * answer that it has not read yet (RFC 9112 section 9.6).
 */
export function linger(req: HostRequest, done: (all: boolean) => void): void {
  let bytes = 0
  const stop = (all: boolean): void => {
    clearTimeout(total)
    clearTimeout(idle)
    req.off('data', data)
    req.off('end', ended)
    req.off('close', closed)
    done(all)
  }
  const ended = (): void => stop(true)
  const closed = (): void => stop(false)
  const data = (chunk: Uint8Array): void => {
    bytes += chunk.byteLength
    if (bytes > LINGER_BYTES) stop(false)
    else idle.refresh()
  }
  const total = setTimeout(closed, LINGER_MS).unref()
  const idle = setTimeout(closed, LINGER_IDLE_MS).unref()
  req.on('data', data)
  req.on('end', ended)
  req.on('close', closed)
  req.resume()
}
