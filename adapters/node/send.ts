import type { HttpResponse } from '../../src/http/exchange.js'
import { copyHeadersToError } from '../../src/http/response-headers.js'
import { closeUnread, isStreamed } from '../../src/http/body/source.js'
import { hasNoContent } from './head.js'
import { isGone, type NodeRequest } from './request.js'
import { sendStream } from './send-stream.js'
import { sendFailure, sendWhole, type Rescue } from './send-whole.js'

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
