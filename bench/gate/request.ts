import type { HttpRequest, RequestHeaders } from 'longhaul'
import type { BodySource } from '../../src/http/exchange.js'
import { BaseRequest } from '../../src/http/request.js'

/** Returns the headers of a request with this body. */
export function headersOf(headers: RequestHeaders, body: Uint8Array = new Uint8Array(0)): RequestHeaders {
  return { ...headers, 'host': 'localhost', 'content-length': String(body.byteLength) }
}

/** A request as a binding makes it, without the cost of a socket and of a parser. */
export class BareRequest extends BaseRequest implements HttpRequest<Record<never, never>> {
  readonly mountPath = ''
  readonly params = {}
  readonly search = ''
  readonly gone = false
  readonly context = {}
  readonly peerAddress = '127.0.0.1'
  readonly raw = undefined
  readonly body: BodySource

  /** @param headers - what `headersOf` has made, once for many requests: a parser makes them otherwise */
  constructor(
    readonly method: string, readonly path: string, readonly headers: RequestHeaders = headersOf({}), body: Uint8Array = new Uint8Array(0),
  ) {
    super()
    this.body = sourceOf(body)
  }

  get query(): URLSearchParams {
    return new URLSearchParams()
  }

  get signal(): AbortSignal {
    return new AbortController().signal
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
