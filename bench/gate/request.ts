import type { BodySource, HttpRequest, RequestHeaders } from 'longhaul'

const NO_BODY = new Uint8Array(0)

/** Makes a request as a binding does, without the cost of a socket and of a parser. */
export function requestOf(
  method: string, path: string, headers: RequestHeaders = {}, body: Uint8Array = NO_BODY, params: Readonly<Record<string, string>> = {},
): HttpRequest<Record<never, never>> {
  return {
    method, path, params, mountPath: '', search: '', gone: false,
    get query() { return new URLSearchParams() },
    get signal() { return new AbortController().signal },
    headers: { host: 'localhost', 'content-length': String(body.byteLength), ...headers },
    body: sourceOf(body), context: {}, peerAddress: '127.0.0.1', raw: undefined,
  }
}

function sourceOf(body: Uint8Array): BodySource {
  return {
    parsed: undefined,
    bytes: (limit) => Promise.resolve(body.byteLength > limit ? undefined : body),
    async* stream() {
      for (let at = 0; at < body.byteLength; at += 65_536) yield body.subarray(at, at + 65_536)
    },
  }
}
