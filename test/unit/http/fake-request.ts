import { DerivedRequest } from '../../../src/http/request.js'
import type { BodySource, HttpRequest, RequestChanges, RequestHeaders } from '../../../src/http/exchange.js'

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
export function fakeRequest({ headers = {}, body = '', parsed, fails }: Fake = {}): HttpRequest & { readonly reads: number[] } {
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
