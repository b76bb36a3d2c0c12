// Requests without a port, and a handler's answer as the boundary gives it.
import { guard } from '../../../src/http/boundary.js'
import { DerivedRequest, plainRequest } from '../../../src/http/request.js'
import type {
  BodySource, Handler, HttpRequest, HttpResponse, RequestChanges, RequestHeaders,
} from '../../../src/http/exchange.js'

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

export function request<C = unknown>({
  method = 'GET',
  path = '/',
  mountPath = '',
  headers = {},
  context,
  peerAddress,
  body = UNREAD,
  signal,
}: Ask = {}): HttpRequest<C> {
  const [before = '', query = ''] = path.split('?')
  return plainRequest({
    method,
    path: before,
    mountPath,
    params: {},
    query: new URLSearchParams(query),
    headers,
    body,
    signal: signal ?? new AbortController().signal,
    context: context as C,
    peerAddress,
    raw: undefined,
  })
}

/** What a client would get, and the failures that `onError` heard of. */
export async function ask(
  handler: Handler<never>,
  what: Ask = {},
): Promise<HttpResponse & { readonly json: Record<string, unknown>; readonly heard: unknown[] }> {
  const heard: unknown[] = []
  const answer = (await guard(handler as Handler, {
    onError: (error) => {
      heard.push(error)
    },
  })(request(what))) ?? { status: 0, headers: {} }
  const { body: sent } = answer
  const body = sent instanceof Uint8Array ? Buffer.from(sent).toString() : sent
  const json = typeof body === 'string' && body !== '' ? JSON.parse(body) : {}
  return { ...answer, ...(body !== undefined && { body }), json, heard }
}

export interface Fake {
  readonly headers?: RequestHeaders
  /** What the connection brings. */
  readonly body?: string | Uint8Array
  /** What the host's parser left. */
  readonly parsed?: { readonly value: unknown }
  /** What reading fails with. */
  readonly fails?: Error
}

/** A request as a binding makes it, with the limits that its body was read with. */
export function fakeRequest({ headers = {}, body = '', parsed, fails }: Fake = {}): HttpRequest & {
  readonly reads: number[]
} {
  const bytes = typeof body === 'string' ? Buffer.from(body) : body
  const reads: number[] = []
  const source: BodySource = {
    parsed,
    bytes: async (limit) => {
      reads.push(limit)
      if (fails) throw fails
      return bytes.byteLength > limit ? undefined : bytes
    },
    stream: async function* () {
      if (fails) throw fails
      yield bytes
    },
  }
  return {
    reads,
    method: 'POST',
    path: '/things',
    mountPath: '',
    params: {},
    query: new URLSearchParams(),
    headers,
    body: source,
    signal: new AbortController().signal,
    context: undefined,
    peerAddress: undefined,
    raw: undefined,
    // A member of its own, so that tests may copy this request.
    with<D>(changes: RequestChanges<D>): HttpRequest<D> {
      return new DerivedRequest<D>(this, changes)
    },
  }
}
