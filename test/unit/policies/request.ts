// Requests without a port, and a handler's answer as the boundary gives it.
import { guard } from '../../../src/http/boundary.js'
import { plainRequest } from '../../../src/http/request.js'
import type { BodySource, Handler, HttpRequest, HttpResponse, RequestHeaders } from '../../../src/http/exchange.js'

export interface Ask {
  readonly method?: string
  /** With the query. */
  readonly path?: string
  readonly mountPath?: string
  readonly headers?: RequestHeaders
  readonly context?: unknown
  readonly peerAddress?: string
  readonly body?: BodySource
  readonly signal?: AbortSignal
}

/** A body that must not be read: every test in which nothing reads it has proved so. */
const UNREAD: BodySource = {
  parsed: undefined,
  bytes: () => { throw new Error('the body was read') },
  stream: () => { throw new Error('the body was read') },
}

export function request<C = unknown>({ method = 'GET', path = '/', mountPath = '', headers = {}, context, peerAddress, body = UNREAD, signal }: Ask = {}): HttpRequest<C> {
  const [before = '', query = ''] = path.split('?')
  return plainRequest({
    method, path: before, mountPath, params: {}, query: new URLSearchParams(query), headers, body,
    signal: signal ?? new AbortController().signal, context: context as C, peerAddress, raw: undefined,
  })
}

/** What a client would get, and the failures that `onError` heard of. */
export async function ask(handler: Handler<never>, what: Ask = {}): Promise<HttpResponse & { readonly json: Record<string, unknown>, readonly heard: unknown[] }> {
  const heard: unknown[] = []
  const answer = await guard(handler as Handler, { onError: (error) => { heard.push(error) } })(request(what)) ?? { status: 0, headers: {} }
  const { body: sent } = answer
  const body = sent instanceof Uint8Array ? Buffer.from(sent).toString() : sent
  const json = typeof body === 'string' && body !== '' ? JSON.parse(body) : {}
  return { ...answer, ...body !== undefined && { body }, json, heard }
}
