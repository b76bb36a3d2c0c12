import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { OutgoingBody, sizeOf } from '../../src/http/body/outgoing.js'
import { closeUnread, isStreamed, type Chunk } from '../../src/http/body/source.js'
import type { HttpResponse } from '../../src/http/exchange.js'
import { copyHeadersToError } from '../../src/http/respond.js'
import { checkHeader, hasNoContent, isList, together } from '../node/head.js'
import { isGone } from '../node/host.js'
import {
  cut, cutAfterTurn, dropRest, leavesBody, linger, mustClose, send as sendDirectly, type AnyRequest,
  type Rescue,
} from '../node/send.js'
import { countUnread } from '../node/unread.js'

/** Key of Fastify's reply in a request of node:http. A WeakMap would cost 5 µs a request. */
const REPLY = Symbol('longhaul.fastifyReply')

type RawRequest = object & { [REPLY]?: FastifyReply }

export function setReply(raw: RawRequest, reply: FastifyReply): void {
  raw[REPLY] = reply
}

export function replyOf(raw: RawRequest): FastifyReply {
  return raw[REPLY] as FastifyReply
}

/**
 * Sends a response with `reply.send`, so that `onSend` hooks see it, unless the connection has to
 * be closed because the client still sends a large body. Never throws.
 */
export function send(call: AnyRequest, response: HttpResponse, rescue: Rescue): void {
  const { req, res } = call
  const reply = replyOf(req)
  const { body } = response
  if (reply.sent || res.headersSent || isGone(req, res)) {
    closeUnread(body)
    return
  }
  if (mustClose(call, response.status)) {
    copyHeaders(reply)
    sendDirectly(call, response, rescue)
    return
  }
  if (isStreamed(body) && !hasNoContent(req, response.status)) {
    void sendStream(call, response, body, rescue)
    return
  }
  closeUnread(body)
  try {
    sendWhole(reply, call, response)
  } catch (error) {
    sendFailure(call, response, error, rescue)
  }
}

/**
 * Sends a string with its Content-Type unchanged, because Fastify changes it only without a
 * serializer. The serializer is for this string only.
 */
function asItIs(this: FastifyReply, text: string): string {
  this.serializer(null as never)
  return text
}

function sendWhole(reply: FastifyReply, call: AnyRequest, response: HttpResponse): void {
  const { body, status } = response
  const isBare = status === 204 || status === 304
  const whole = isBare || isStreamed(body) ? undefined : body
  setHead(reply, response, whole !== undefined || isBare)
  call.answered = true
  reply.serializer(asItIs).send(whole)
  const { res } = call
  if (whole !== undefined && (res.writableLength > 0 || !res.writableEnded)) {
    res.once('close', countUnread(call, sizeOf(whole), whole))
  }
  dropRest(call)
}

function sendFailure(call: AnyRequest, response: HttpResponse, error: unknown, rescue: Rescue): void {
  const reply = replyOf(call.req)
  copyHeadersToError(error, response)
  const failure = rescue(error, call)
  if (reply.sent || call.res.headersSent || isGone(call.req, call.res)) return
  try {
    sendWhole(reply, call, failure)
  } catch {
    cut(call)
  }
}

async function sendStream(
  call: AnyRequest, response: HttpResponse, body: AsyncIterable<Chunk>, rescue: Rescue,
): Promise<void> {
  const { req, res } = call
  let source: OutgoingBody | undefined
  const close = (): void => { source?.close() }
  res.once('close', close)
  try {
    source = new OutgoingBody(body, response.headers)
    const isLate = !await source.begin()
    if (isGone(req, res)) {
      close()
      return
    }
    setHead(replyOf(req), response, false)
    const chunks = chunksOf(source, call, rescue, isLate)
    replyOf(req).send(Readable.from(chunks, { highWaterMark: 1 }))
  } catch (error) {
    close()
    if (!isGone(req, res)) sendFailure(call, response, error, rescue)
  }
}

/** Yields the body of a streamed response. If it fails, cuts the connection. */
async function* chunksOf(
  source: OutgoingBody, call: AnyRequest, rescue: Rescue, isLate: boolean,
): AsyncGenerator<Chunk, void, undefined> {
  try {
    // An empty chunk makes node:http send the status and headers.
    if (isLate) yield ''
    for (let chunk = await source.next(); chunk !== undefined; chunk = await source.next()) {
      yield chunk
    }
    call.answered = true
    if (leavesBody(call)) await new Promise((resolve) => { linger(call.req, resolve) })
    else dropRest(call)
  } catch (error) {
    rescue(error, call)
    await cutAfterTurn(call)
  } finally {
    source.close()
  }
}

/** Throws before it sets anything, so that an error response does not get the headers. */
function setHead(
  reply: FastifyReply, { status, headers }: HttpResponse, hasOtherLength: boolean,
): void {
  for (const name in headers) checkHeader(name, headers[name] as string | string[])
  reply.code(status)
  for (const name in headers) {
    if (hasOtherLength && name === 'content-length') continue
    const value = headers[name] as string | string[]
    // `reply.header` adds cookies to those that are there.
    const isJoined = name !== 'set-cookie' && isList(name)
    reply.header(name, isJoined ? together(name, reply.getHeader(name), value) : value)
  }
}

function copyHeaders(reply: FastifyReply): void {
  const headers = reply.getHeaders()
  for (const name in headers) {
    const value = headers[name]
    if (value !== undefined) reply.raw.setHeader(name, value)
  }
}
