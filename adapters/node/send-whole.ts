import type { HttpResponse } from '../../src/http/exchange.js'
import { closeUnread, isStreamed } from '../../src/http/body/source.js'
import { endWith } from './end-with.js'
import { hasNoContent, writeHead } from './head.js'
import { isGone, type NodeRequest } from './request.js'
import { dropRest, leavesBody, linger } from './unread.js'

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
