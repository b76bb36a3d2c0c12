import type { HttpResponse } from '../../src/http/exchange.js'
import { copyHeadersToError } from '../../src/http/response-headers.js'
import { HEAD_WAIT_MS, Source, wantsHeadAtOnce, type Chunk } from '../../src/http/body/source.js'
import { writeHead } from './head.js'
import { onClose, type NodeRequest } from './request.js'
import { sendFailure, type Rescue } from './send-whole.js'
import { dropRest, leavesBody, linger } from './unread.js'

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
