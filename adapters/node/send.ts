import { ServerResponse } from 'node:http'
import { OutgoingBody, sizeOf } from '../../src/http/body/outgoing.js'
import { closeUnread, isStreamed, type Chunk } from '../../src/http/body/source.js'
import type { HttpResponse } from '../../src/http/exchange.js'
import { copyHeadersToError } from '../../src/http/respond.js'
import { hasNoContent, writeHead } from './head.js'
import { isGone, type HostRequest, type HostResponse } from './host.js'
import type { NodeRequest } from './request.js'
import { countUnread } from './unread.js'
import { setGlobalTimeout } from '../../src/runtime/timers.js'

/** Reports an error, and returns the response that is sent instead. */
export type Rescue = (error: unknown, call: AnyRequest) => HttpResponse
export type AnyRequest = NodeRequest<unknown>
export type Send = (call: AnyRequest, response: HttpResponse, rescue: Rescue) => void

/**
 * Sends a response. Drops it if the client has disconnected or your framework has responded. Never
 * throws: if it fails, the client gets an error response, or the connection is cut.
 */
export function send(call: AnyRequest, response: HttpResponse, rescue: Rescue): void {
  const { req, res } = call
  const { body } = response
  if (res.headersSent || isGone(req, res)) {
    closeUnread(body)
    return
  }
  const streamed = isStreamed(body)
  if (streamed && !hasNoContent(req, response.status)) {
    void sendStream(call, response, body, rescue)
    return
  }
  if (streamed) closeUnread(body)
  try {
    sendWhole(call, response)
  } catch (error) {
    // Usually a header value that Node does not accept.
    copyHeadersToError(error, response)
    void sendFailure(call, error, rescue)
  }
}

function sendWhole(call: AnyRequest, response: HttpResponse): void {
  const { req, res } = call
  const { body, status } = response
  const bare = hasNoContent(req, status)
  const whole = isStreamed(body) ? undefined : body
  const close = mustClose(call, status)
  const length = lengthOf(whole, bare, status)
  writeHead(res, response, length, close)
  const content = bare ? undefined : whole
  if (!close) {
    if (typeof content === 'string') {
      // A string as long as its bytes is ASCII. Node writes it and the headers in one copy as latin1.
      endWith(res, content, content.length === length ? 'latin1' : 'utf8')
    } else res.end(content)
    dropRest(call)
    // Middleware that compresses ends it later.
    if (length !== undefined && (res.writableLength > 0 || !res.writableEnded)) {
      res.once('close', countUnread(call, length, content))
    }
    return
  }
  if (content === undefined) res.flushHeaders()
  else res.write(content)
  call.answered = true
  linger(req, () => res.end())
}

function lengthOf(
  body: string | Uint8Array | undefined, bare: boolean, status: number,
): number | undefined {
  if (status === 204 || status === 304) return undefined
  if (body === undefined) return bare ? undefined : 0
  return typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength
}

const node: Pick<ServerResponse, 'end' | 'write'> = ServerResponse.prototype

/**
 * Ends a response with a string. `end(text)` passes two pieces to the socket, which takes a tenth
 * longer for a small response. So the string is written, released and ended, unless middleware has
 * replaced `write` or `end`.
 */
function endWith(res: HostResponse, text: string, encoding: BufferEncoding): void {
  const { socket } = res
  if (text === '' || socket === null || res.write !== node.write || res.end !== node.end) {
    res.end(text, encoding)
    return
  }
  res.write(text, encoding)
  // `write` holds its data back for the rest of this turn, in case that more follows.
  socket.uncork()
  res.end()
}

/**
 * Sends an error instead of a response, or cuts the connection if the headers are sent. Never
 * rejects.
 */
async function sendFailure(call: AnyRequest, error: unknown, rescue: Rescue): Promise<void> {
  const { req, res } = call
  const begun = res.headersSent
  const response = rescue(error, call)
  if (isGone(req, res)) return
  if (begun) {
    await cutAfterTurn(call)
    return
  }
  try {
    sendWhole(call, response)
  } catch {
    cut(call)
  }
}

/**
 * Cuts a connection, so that the response does not look complete. HTTP/1.0 marks its end by
 * closing, so it needs a reset. HTTP/2 needs an error.
 */
export function cut({ req, res }: AnyRequest): void {
  if (req.httpVersionMajor === 1 && req.httpVersionMinor === 0) req.socket.resetAndDestroy()
  res.destroy(req.httpVersionMajor > 1 ? new Error('The response was cut') : undefined)
}

/** Cuts a begun response. Node holds back what was written in this turn: its end may say why. */
export async function cutAfterTurn(call: AnyRequest): Promise<void> {
  await new Promise(setImmediate)
  cut(call)
}

async function sendStream(
  call: AnyRequest, response: HttpResponse, body: AsyncIterable<Chunk>, rescue: Rescue,
): Promise<void> {
  const { res } = call
  let gone = false
  let wake: () => void = ignore
  let source: OutgoingBody | undefined
  res.once('close', () => {
    gone = true
    source?.close()
    wake()
  })
  const drained = (): Promise<void> => new Promise((resolve) => {
    wake = () => {
      res.off('drain', wake)
      resolve()
    }
    res.on('drain', wake)
  })
  const open = (): void => { writeHead(res, response, undefined, false) }
  try {
    source = new OutgoingBody(body, response.headers)
    const { isEvents } = source
    if (!await source.begin()) {
      if (gone) return
      open()
      res.flushHeaders()
      if (isEvents) res.flush?.()
    }
    let returned: Chunk | undefined
    for (;;) {
      const chunk = await source.next(returned)
      returned = undefined
      if (gone) return
      if (chunk === undefined) break
      if (!res.headersSent) open()
      // Adapters for Lambda and others return nothing, and never emit `drain`.
      const room: unknown = res.write(chunk)
      if (isEvents) res.flush?.()
      if (room === false && !gone) {
        const isRead = countUnread(call, sizeOf(chunk), chunk)
        await drained()
        isRead()
        if (isSent(res)) returned = chunk
      }
      if (gone) return
    }
    if (!res.headersSent) open()
    finish(call)
  } catch (error) {
    source?.close()
    copyHeadersToError(error, response)
    if (!gone) await sendFailure(call, error, rescue)
  }
}

/** Returns true if the system has all chunks, so nobody will read their memory again. */
function isSent(res: HostResponse): boolean {
  // Middleware that has replaced `write` may keep chunks.
  return res.write === node.write && res.writableLength === 0
}

/**
 * Ends a chunked response. The last chunk is sent before the rest of the request is read, unless
 * Node would close the connection after this chunk.
 */
function finish(call: AnyRequest): void {
  const { req, res } = call
  if (!leavesBody(call)) {
    dropRest(call)
    res.end()
  } else if (res.shouldKeepAlive) {
    res.end()
    linger(req, (all) => {
      if (!all) req.socket.destroySoon()
    })
  } else {
    call.answered = true
    linger(req, () => res.end())
  }
}

function ignore(): void {}

/** Maximum rest of a body that is read and dropped to keep the connection. */
const WORTH_KEEPING = 64 * 1024

/** Limits for reading a larger rest before the connection is closed. */
const LINGER_MS = 5000
const LINGER_IDLE_MS = 1000
const LINGER_BYTES = 256 * 1024 * 1024

/**
 * Returns true if the connection has to be closed after a whole response. A client that was too
 * slow is not waited for (RFC 9110 section 15.5.9).
 */
export function mustClose(call: AnyRequest, status: number): boolean {
  return !call.req.complete && (status === 408 || leavesBody(call))
}

/**
 * Returns true if so much of the request is unread that the connection has to be closed after the
 * response (RFC 9112 section 9.3).
 */
export function leavesBody({ req, body }: AnyRequest): boolean {
  if (body.isBroken) return true
  if (req.complete || body.reading || req.httpVersionMajor > 1) return false
  const { headers } = req
  if (headers['transfer-encoding'] !== undefined) return true
  const declared = headers['content-length']
  return declared !== undefined && (body.waiting || Number(declared) > WORTH_KEEPING)
}

/** Drops the rest of a small body. Node does so only if nobody began to read it. */
export function dropRest({ req, body }: AnyRequest): void {
  if (body.begun && !body.reading && !req.readableEnded) req.resume()
}

/**
 * Calls `done` when the client has sent all (`true`), or at a limit. If the connection were closed
 * at once, a reset could make the client lose the response (RFC 9112 section 9.6).
 */
export function linger(req: HostRequest, done: (all: boolean) => void): void {
  // The client has closed its side, so nothing more can arrive.
  if (req.socket.readableEnded) {
    done(false)
    return
  }
  let bytes = 0
  const stop = (all: boolean): void => {
    clearTimeout(total)
    clearTimeout(idle)
    req.off('data', data)
    req.off('end', ended)
    req.off('close', closed)
    done(all)
  }
  const ended = (): void => { stop(true) }
  const closed = (): void => { stop(false) }
  const data = (chunk: Uint8Array): void => {
    bytes += chunk.byteLength
    if (bytes > LINGER_BYTES) stop(false)
    else idle.refresh()
  }
  const total = setGlobalTimeout(closed, LINGER_MS).unref()
  const idle = setGlobalTimeout(closed, LINGER_IDLE_MS).unref()
  req.on('data', data)
  req.on('end', ended)
  req.on('close', closed)
  req.resume()
}
