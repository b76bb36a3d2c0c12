import { OutgoingBody } from '../../src/http/body/outgoing.js'
import { closeUnread, isStreamed } from '../../src/http/body/source.js'
import type { HttpRequest, HttpResponse, ResponseHeaders } from '../../src/http/exchange.js'
import { isHeaderValue } from '../../src/http/headers/reader.js'

const encoder = new TextEncoder()

const NULL_BODY = new Set([204, 205, 304])

/** Reports an error, and returns the response that is sent instead. */
export type Rescue = (error: unknown) => HttpResponse

export async function toResponse(
  request: HttpRequest, response: HttpResponse, rescue: Rescue,
): Promise<Response> {
  const { status, headers, body } = response
  const bare = request.method === 'HEAD' || NULL_BODY.has(status)
  if (!isStreamed(body)) {
    // As bytes, because `Response` adds a content type to a string.
    const bytes = typeof body === 'string' ? encoder.encode(body) : body
    const length = status === 204 || status === 304
      ? undefined
      : bytes?.byteLength ?? (bare ? undefined : 0)
    const isDropped = length !== undefined || NULL_BODY.has(status)
    return new Response(
      bare || bytes === undefined ? null : bytes as Uint8Array<ArrayBuffer>,
      init(status, headers, fetchHeaders(headers, length, isDropped)),
    )
  }
  const sent = fetchHeaders(headers, undefined, NULL_BODY.has(status))
  if (bare || request.signal.aborted) {
    closeUnread(body)
    return new Response(null, { status, headers: sent })
  }
  const source = new OutgoingBody(body, headers)
  try {
    await source.begin()
    return new Response(streamOf(source, request.signal, rescue), init(status, headers, sent))
  } catch (error) {
    source.close()
    throw error
  }
}

/** Adds `encodeBody`, because a Worker would encode a body with Content-Encoding a second time. */
function init(
  status: number, own: ResponseHeaders, headers: ReturnType<typeof fetchHeaders>,
): ResponseInit {
  const encoded = own['content-encoding'] !== undefined
  return { status, headers, ...encoded && { encodeBody: 'manual' } }
}

/**
 * Returns headers as lines. Checks the headers, because @hono/node-server would check them outside
 * of the error boundary.
 */
function fetchHeaders(
  headers: ResponseHeaders, length: number | undefined, dropsLength: boolean,
): [string, string][] {
  const lines: [string, string][] = []
  for (const [name, values] of Object.entries(headers)) {
    if (dropsLength && name === 'content-length') continue
    for (const line of typeof values === 'string' ? [values] : values) {
      if (!isHeaderValue(line)) {
        throw new TypeError(`The response header ${name} has characters that no header may have`)
      }
      lines.push([name, line])
    }
  }
  if (length !== undefined) lines.push(['content-length', String(length)])
  return lines
}

function streamOf(
  source: OutgoingBody, signal: AbortSignal, rescue: Rescue,
): ReadableStream<Uint8Array> {
  let left = false
  const close = (): void => {
    left = true
    signal.removeEventListener('abort', close)
    source.close()
  }
  signal.addEventListener('abort', close)
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const chunk = await source.next()
        // The stream was cancelled while reading, so there is nothing to report.
        if (left) return
        if (chunk !== undefined) {
          return controller.enqueue(typeof chunk === 'string' ? encoder.encode(chunk) : chunk)
        }
        signal.removeEventListener('abort', close)
        controller.close()
      } catch (error) {
        close()
        if (!signal.aborted) rescue(error)
        // A server may send the message of this error to the client, so it says nothing.
        controller.error(new Error('The source of this body has failed'))
      }
    },
    cancel: close,
  }, { highWaterMark: 0 })
}
