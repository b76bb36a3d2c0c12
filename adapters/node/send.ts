import type { HttpResponse } from '../../src/http/exchange.js'
import { copyHeadersToError } from '../../src/http/respond.js'
import {
  closeUnread, isStreamed, HEAD_WAIT_MS, Source, wantsHeadAtOnce, type Chunk,
} from '../../src/http/body/source.js'
import { hasNoContent, writeHead } from './head.js'
import type { NodeRequest } from './request.js'
import { isGone, onClose, type HostRequest, type HostResponse } from './host.js'
import { ServerResponse } from 'node:http'

/**
 * Sends a response. If the client has disconnected, or the host has answered already, drops it and
 * closes its source. Never throws: a failure is answered with an error, or cuts the connection.
 */
export function send(call: NodeRequest<unknown>, answer: HttpResponse, rescue: Rescue): void {
  const { req, res } = call
  const { body } = answer
  if (res.headersSent || isGone(req, res)) {
    closeUnread(body)
    return
  }
  const streamed = isStreamed(body)
  if (streamed && !hasNoContent(req, answer.status)) {
    void sendStream(call, answer, body, rescue)
    return
  }
  if (streamed) closeUnread(body)
  try {
    sendWhole(call, answer)
  } catch (error) {
    // Usually a header value that Node refuses.
    copyHeadersToError(error, answer)
    void sendFailure(call, error, rescue)
  }
}

/** Converts a failure to an error response, and reports it. */
export type Rescue = (error: unknown) => Promise<HttpResponse>

/**
 * Sends a response whose body is in memory in one write, with its length. Sends only the head of a
 * stream. May throw.
 */
export function sendWhole(call: NodeRequest<unknown>, answer: HttpResponse): void {
  const { req, res } = call
  const { body, status } = answer
  const bare = hasNoContent(req, status)
  const whole = isStreamed(body) ? undefined : body
  // Whoever was too slow is not waited for any longer, though somebody reads still (RFC 9110
  // section 15.5.9).
  const close = !req.complete && (status === 408 || leavesBody(call))
  const length = lengthOf(whole, bare, status)
  writeHead(res, answer, length, close)
  const content = bare ? undefined : whole
  if (!close) {
    // Text as long as its bytes is ASCII, and Node writes head and body together in one copy when
    // told so.
    if (typeof content === 'string') {
      endWith(res, content, content.length === length ? 'latin1' : 'utf8')
    }
    else res.end(content)
    dropRest(call)
    return
  }
  if (content === undefined) res.flushHeaders()
  else res.write(content)
  call.answered = true
  linger(req, () => res.end())
}

/** Returns the Content-Length. Without a body, the response to HEAD leaves it out. */
function lengthOf(
  body: string | Uint8Array | undefined, bare: boolean, status: number,
): number | undefined {
  if (status === 204 || status === 304) return undefined
  if (body === undefined) return bare ? undefined : 0
  return typeof body === 'string' ? Buffer.byteLength(body) : body.byteLength
}

/**
 * Sends an error instead of a response that cannot be sent. If the head is sent already, cuts the
 * connection, so that the response does not look complete. Never rejects.
 */
export async function sendFailure(
  call: NodeRequest<unknown>, error: unknown, rescue: Rescue,
): Promise<void> {
  const { req, res } = call
  const begun = res.headersSent
  const answer = await rescue(error)
  if (isGone(req, res)) closeUnread(answer.body)
  else if (begun) {
    // Node holds back what was written in this turn. Its end may say why the response is cut.
    await new Promise(setImmediate)
    cut(call)
  }
  else {
    try {
      sendWhole(call, answer)
    } catch {
      cut(call)
    }
  }
}

/**
 * HTTP/1.0 marks the end of an answer by closing, so there only a reset tells that something is
 * missing.
 */
function cut(call: NodeRequest<unknown>): void {
  const { req, res } = call
  if (req.httpVersionMajor === 1 && req.httpVersionMinor === 0) req.socket.resetAndDestroy()
  res.destroy()
}

const node: Pick<ServerResponse, 'end' | 'write'> = ServerResponse.prototype

/**
 * Ends an answer with a text, behind the head that is written already, in one piece. `end(text)`
 * hands the socket two of them, the second one empty, which takes Node and the system a tenth
 * longer for a small answer; so it is written, let go and ended. Where the host has put something
 * of its own in place of either, that sees the text in one call as it would from any handler.
 */
export function endWith(res: HostResponse, text: string, encoding: BufferEncoding): void {
  const { socket } = res
  if (text === '' || socket === null || res.write !== node.write || res.end !== node.end) {
    res.end(text, encoding)
    return
  }
  res.write(text, encoding)
  // `write` holds back what it has for the rest of this turn, in case that more follows.
  socket.uncork()
  res.end()
}

/**
 * Sends a streamed response at the speed of its reader: requests the next chunk when the connection
 * accepts more. The head is sent with the first chunk, after `HEAD_WAIT_MS`, or at once for
 * server-sent events. If the source fails before that, the client gets an error response.
 */
export async function sendStream(
  call: NodeRequest<unknown>, answer: HttpResponse, body: AsyncIterable<Chunk>, rescue: Rescue
): Promise<void> {
  const { req, res } = call
  let gone = false
  let wake: () => void = ignore
  let source: Source | undefined
  onClose(req, res, () => {
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
  try {
    source = new Source(body)
    const events = wantsHeadAtOnce(answer.headers)
    const open = (): void => writeHead(res, answer, undefined, false)
    if (events || !await source.firstWithin(HEAD_WAIT_MS)) {
      if (gone) return
      open()
      res.flushHeaders()
      if (events) res.flush?.()
    }
    const promised = Number(answer.headers['content-length'] ?? NaN)
    let sent = 0
    for (;;) {
      const step = await source.next()
      if (gone) return
      if (step.done === true) break
      const { value } = step
      const size = typeof value === 'string' ? Buffer.byteLength(value) : value.byteLength
      sent += size
      if (sent > promised) {
        throw new RangeError(`The body is longer than its Content-Length of ${promised}`)
      }
      if (size === 0) continue
      if (!res.headersSent) open()
      const room = res.write(step.value)
      if (events) res.flush?.()
      if (!room && !gone) await drained()
      if (gone) return
    }
    if (sent < promised) {
      const message = `The body is ${sent} bytes long, and its Content-Length says ${promised}`
      throw new RangeError(message)
    }
    if (!res.headersSent) open()
    finish(call)
  } catch (error) {
    source?.close()
    copyHeadersToError(error, answer)
    if (!gone) await sendFailure(call, error, rescue)
  }
}

/**
 * A chunked answer is whole only with its last chunk, so that goes first and an unread body after
 * it. Where the client wants the connection closed, Node would do so behind the last chunk at once,
 * so there the unread body goes first.
 */
function finish(call: NodeRequest<unknown>): void {
  const { req, res } = call
  if (leavesBody(call)) {
    if (!res.shouldKeepAlive) {
      call.answered = true
      linger(req, () => res.end())
      return
    }
    linger(req, (all) => {
      if (!all) req.socket.destroySoon()
    })
  } else dropRest(call)
  res.end()
}

function ignore(): void {}

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
