import type {
  HttpRequest, HttpResponse, ResponseHeaders, RequestHeaders,
} from '../../src/http/exchange.js'
import {
  closeUnread, HEAD_WAIT_MS, isStreamed, Source, wantsHeadAtOnce,
} from '../../src/http/body/source.js'
import { isFieldValue } from '../../src/http/fields/reader.js'

const encoder = new TextEncoder()

/** Statuses with which `new Response` takes no body at all. */
const NULL_BODY = new Set([204, 205, 304])

/** Turns a failure into the answer for it, and reports it where the host asked for that. */
export type Rescue = (error: unknown) => Promise<HttpResponse>

/**
 * An answer as a `Response`. Rejects when the answer can't be sent: a refused header, a source that
 * fails at once.
 */
export async function toResponse(
  request: HttpRequest, answer: HttpResponse, rescue: Rescue,
): Promise<Response> {
  const { status, headers, body } = answer
  const bare = request.method === 'HEAD' || NULL_BODY.has(status)
  if (!isStreamed(body)) {
    // As bytes, since for a string `Response` makes up a content type.
    const bytes = typeof body === 'string' ? encoder.encode(body) : body
    const length = status === 204 || status === 304
      ? undefined
      : bytes?.byteLength ?? (bare ? undefined : 0)
    const fields = fetchHeaders(headers, length, length !== undefined || NULL_BODY.has(status))
    return new Response(
      bare || bytes === undefined ? null : bytes as Uint8Array<ArrayBuffer>,
      init(status, headers, fields),
    )
  }
  const fields = fetchHeaders(headers, undefined, NULL_BODY.has(status))
  if (bare || request.signal.aborted) {
    closeUnread(body)
    return new Response(null, { status, headers: fields })
  }
  const source = new Source(body)
  try {
    if (!wantsHeadAtOnce(headers) && await source.firstWithin(HEAD_WAIT_MS)) await source.settled()
    return new Response(streamOf(source, request.signal, rescue), init(status, headers, fields))
  } catch (error) {
    source.close()
    throw error
  }
}

/**
 * A Worker would encode once more a body that says it is encoded. Other runtimes ignore
 * `encodeBody`.
 */
function init(
  status: number, own: ResponseHeaders, headers: ReturnType<typeof fetchHeaders>,
): ResponseInit {
  const encoded = own['content-encoding'] !== undefined
  return { status, headers, ...encoded && { encodeBody: 'manual' } }
}

/**
 * The source as a web stream that asks for a chunk only when its reader does, and closes it when
 * the reader or the client leaves.
 */
function streamOf(source: Source, signal: AbortSignal, rescue: Rescue): ReadableStream<Uint8Array> {
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
        const chunk = await nextChunk(source)
        // A source that is closed while it is asked ends in good order; nobody is there to hear of
        // that.
        if (left) return
        if (chunk !== undefined) return controller.enqueue(chunk)
        signal.removeEventListener('abort', close)
        controller.close()
      } catch (error) {
        close()
        if (!signal.aborted) await rescue(error)
        // What the source said stays here: a host may write the message of this error to the
        // client.
        controller.error(new Error('The source of this body has failed'))
      }
    },
    cancel: close
  }, { highWaterMark: 0 })
}

/** The next chunk that holds something, as bytes; `undefined` at the end. */
async function nextChunk(source: Source): Promise<Uint8Array | undefined> {
  for (;;) {
    const step = await source.next()
    if (step.done === true) return undefined
    const bytes = typeof step.value === 'string' ? encoder.encode(step.value) : step.value
    if (bytes.byteLength > 0) return bytes
  }
}

/** Fetch headers as a plain record; repeated fields are joined already. */
export function recordOf(headers: Headers): RequestHeaders {
  const record = Object.create(null) as Record<string, string>
  for (const [name, value] of headers) record[name] = value
  return record
}

/**
 * Response headers as `new Response` takes them: a list field becomes that many lines. Checks the
 * values itself, since @hono/node-server's `Response` leaves that to a place behind our error
 * boundary.
 */
export function fetchHeaders(
  headers: ResponseHeaders, length: number | undefined, drop: boolean
): Record<string, string> | [string, string][] {
  const single: Record<string, string> = {}
  let lines: [string, string][] | undefined
  for (const [name, value] of Object.entries(headers)) {
    if (drop && name === 'content-length') continue
    for (const line of typeof value === 'string' ? [value] : value) {
      if (!isFieldValue(line)) {
        throw new TypeError(`The response header ${name} has characters that no header may have`)
      }
    }
    if (Array.isArray(value)) {
      (lines ??= []).push(...value.map((line): [string, string] => [name, line]))
    }
    else single[name] = value
  }
  if (length !== undefined) single['content-length'] = String(length)
  return lines === undefined ? single : [...Object.entries(single), ...lines]
}
