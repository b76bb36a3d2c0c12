import type { ErrorBody, ErrorDetail } from '../wire/errors.js'
import type { MaybePromise } from '../wire/maybe-promise.js'
import { ClientError, isClientError, unchecked } from './errors.js'
import { incremental, serverUrl, type Settings } from './options.js'

export interface ClientRequest {
  readonly method?: string
  readonly url: URL
  /** Origin that the application has named: it alone receives the headers of the application. */
  readonly origin?: string
  /** Headers. A header with the value `undefined` is not sent. */
  readonly headers?: Readonly<Record<string, string | undefined>>
  /** Creates the body. Called for each attempt. */
  readonly body?: (() => MaybePromise<Body>) | undefined
  readonly signal?: AbortSignal | undefined
  /** A status of 400 or above that is not an error of this request. */
  readonly expects?: number
  /** Called with the headers and the status of the response, even if it is an error. */
  readonly onHeaders?: (headers: Headers, status: number) => void
}

export type Body = Blob | ReadableStream<Uint8Array> | string

/** A response whose body has not been read. Read it, or call `discard`. */
export interface Received {
  readonly response: Response
  readonly scope: Scope
  readonly url: string
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly url: string
  readonly json: unknown
}

/** Maximum size of a JSON body, because it is read whole. */
const MAX_JSON_BYTES = 64 * 1024 * 1024
const MAX_REDIRECTS = 20
const REDIRECTS = new Set([301, 302, 303, 307, 308])
const SAFE = new Set(['GET', 'HEAD'])
/** Headers that are no secret and identify nobody. Any other origin receives only these. */
const HARMLESS = new Set([
  'accept', 'if-none-match', 'if-range', 'last-event-id', 'prefer', 'range', 'want-repr-digest',
])

/** Headers about a body. A redirect that changes the method to GET drops them. */
const OF_BODY = new Set(['content-type', 'idempotency-key', 'incremental'])

/**
 * Sends a request once. Rejects with a `ClientError`, the reason of the signal, or what the
 * application's `headers` function throws.
 */
export async function send(settings: Settings, call: ClientRequest): Promise<Received> {
  const { url, headers = {}, body, signal, expects } = call
  const sent: Record<string, string> = {}
  // The server may have named another origin, which must not receive credentials.
  const own = url.origin === settings.base.origin ? await settings.headers() : {}
  const content = await body?.()
  const ofBody = content instanceof ReadableStream ? { incremental: incremental() } : {}
  for (const [name, value] of [own, ofBody, headers].flatMap((each) => Object.entries(each))) {
    if (value !== undefined) sent[name.toLowerCase()] = value
  }
  const scope = new Scope(signal, settings.timeoutMs)
  try {
    const received = await fetchFollowing(settings, call, { headers: sent, body: content }, scope)
    const { ok, status, headers } = received.response
    call.onHeaders?.(headers, status)
    if (!ok && status !== 304 && status !== expects) throw await toError(received)
    return received
  } catch (error) {
    scope.close()
    throw scope.explain(error)
  }
}

interface Content {
  readonly headers: Readonly<Record<string, string>>
  readonly body: Body | undefined
}

/**
 * Sends a request and follows redirects (RFC 9110 section 15.4). Another origin receives no body,
 * no header that may be a credential, and no request that changes something. `fetch` itself removes
 * `authorization` only, and repeats the body.
 */
async function fetchFollowing(
  { fetch }: Settings, call: ClientRequest, content: Content, scope: Scope,
): Promise<Received> {
  let { method = 'GET', url, origin = url.origin } = call
  let { headers, body } = content
  for (let redirects = 0; ; redirects++) {
    if (url.origin !== origin) headers = only(headers, (name) => HARMLESS.has(name))
    const isPublic = SAFE.has(method) && Object.keys(headers).every((name) => HARMLESS.has(name))
    const response = await fetch(url.href, {
      method, headers, cache: 'no-store', redirect: isPublic ? 'follow' : 'manual',
      signal: scope.signal, ...body !== undefined && { body },
      // Node requires this for a streamed body.
      ...body instanceof ReadableStream && { duplex: 'half' },
    } as RequestInit)
    scope.touch()
    const { status, type } = response
    if (type === 'opaqueredirect') {
      throw notFollowed('Browsers hide the new URL, so the request was not sent there.')
    }
    const location = REDIRECTS.has(status) ? response.headers.get('location') : null
    if (location === null) return { response, scope, url: response.url || url.href }
    response.body?.cancel().catch(() => undefined)
    if (redirects === MAX_REDIRECTS) {
      throw notFollowed(`That was redirect ${MAX_REDIRECTS + 1} in a row.`, status)
    }
    const from = url.origin
    url = serverUrl(location, url)
    if (status === 303 ? method !== 'HEAD' : status < 303 && method === 'POST') {
      method = 'GET'
      body = undefined
      headers = only(headers, (name) => !OF_BODY.has(name))
    }
    if (body instanceof ReadableStream) {
      throw notFollowed('A streamed body can be sent only once.', status)
    }
    if (url.origin === from) continue
    origin = ''
    if (SAFE.has(method)) continue
    throw new ClientError('other_origin', `The server redirected this ${method} to another`
      + ` origin, ${url.origin}. It was not sent there. Use the final URL.`, { status })
  }
}

function notFollowed(why: string, status = 0): ClientError {
  const message = `The server redirected the request. ${why} Use the final URL.`
  return new ClientError('redirect_not_followed', message, { status })
}

function only(
  headers: Readonly<Record<string, string>>, keep: (name: string) => boolean,
): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => keep(name)))
}

/** Lifetime of one request. Ends with the application's signal, or if the server is silent too long. */
class Scope {
  private readonly controller = new AbortController()
  private timer: ReturnType<typeof setTimeout> | undefined
  private silent = false
  private readonly stop = () => { this.controller.abort() }

  constructor(private readonly outer: AbortSignal | undefined, private readonly timeoutMs: number) {
    outer?.throwIfAborted()
    outer?.addEventListener('abort', this.stop)
    this.touch()
  }

  get signal(): AbortSignal { return this.controller.signal }

  touch(): void {
    clearTimeout(this.timer)
    this.timer = setTimeout(() => {
      this.silent = true
      this.stop()
    }, this.timeoutMs)
  }

  close(): void {
    clearTimeout(this.timer)
    this.outer?.removeEventListener('abort', this.stop)
  }

  /**
   * Returns the error to throw for `error`: the reason of the application's signal, or a
   * `ClientError`.
   */
  explain(error: unknown): unknown {
    if (this.outer?.aborted) return this.outer.reason
    if (isClientError(error)) return error
    if (this.silent) {
      return new ClientError('timeout', `The server was silent for ${this.timeoutMs} ms.`)
    }
    const message = 'The server could not be reached, or the connection broke.'
    return new ClientError('network_error', message, { cause: error })
  }
}

export function discard({ response, scope }: Received): void {
  response.body?.cancel().catch(() => undefined)
  scope.close()
}

/** Yields the bytes of a body as they arrive. Releases the connection if the reader stops early. */
export async function* chunksOf(
  { response, scope }: Received,
): AsyncGenerator<Uint8Array, void, undefined> {
  const body: ReadableStream<Uint8Array> | null = response.body
  const reader = body?.getReader()
  // The signal does not reach a body that a custom `fetch` has created.
  const cancel = () => { reader?.cancel().catch(() => undefined) }
  scope.signal.addEventListener('abort', cancel)
  try {
    for (;;) {
      const { done, value } = await reader?.read() ?? { done: true }
      scope.signal.throwIfAborted()
      if (done || value === undefined) return
      scope.touch()
      yield value
      // The time that the reader took does not count as silence of the server.
      scope.touch()
    }
  } catch (error) {
    throw scope.explain(error)
  } finally {
    scope.signal.removeEventListener('abort', cancel)
    scope.close()
    cancel()
  }
}

export async function readAnswer(received: Received): Promise<Answer> {
  const { response: { status, headers }, url } = received
  const text = await readText(received)
  try {
    return { status, headers, url, json: text.trim() === '' ? undefined : JSON.parse(text) }
  } catch (cause) {
    throw new ClientError('bad_answer', 'The response is not JSON.', { status, body: text, cause })
  }
}

async function readText(received: Received): Promise<string> {
  const decoder = new TextDecoder()
  const { status } = received.response
  let text = ''
  let bytes = 0
  for await (const chunk of chunksOf(received)) {
    bytes += chunk.length
    if (bytes > MAX_JSON_BYTES) {
      const message = `The response is longer than ${MAX_JSON_BYTES} bytes.`
      throw new ClientError('answer_too_large', message, { status })
    }
    text += decoder.decode(chunk, { stream: true })
  }
  return text + decoder.decode()
}

async function toError(received: Received): Promise<ClientError> {
  const { status, headers } = received.response
  const retryAfter = parseRetryAfter(headers.get('retry-after'))
  let body: unknown
  try {
    const text = await readText(received)
    body = text
    body = JSON.parse(text)
  } catch (error) {
    if (received.scope.signal.aborted) throw error
    // The page of a proxy, or a truncated response. Its status is enough for an error.
  }
  const { code, details, error } = unchecked<ErrorBody>(body)
  // Of problem+json, and of other servers.
  const { detail, title, message } = unchecked<Record<'detail' | 'title' | 'message', string>>(body)
  const isString = (value: unknown): value is string => typeof value === 'string'
  return new ClientError(
    isString(code) ? code : `http_${status}`,
    [error, detail, title, message].find(isString) ?? `The server responded with ${status}.`,
    {
      status, retryAfter, body,
      details: Array.isArray(details) ? details as ErrorDetail[] : undefined,
    },
  )
}

export function parseRetryAfter(header: string | null): number | undefined {
  if (header === null) return undefined
  if (/^\d{1,10}$/.test(header)) return Number(header)
  const ms = /^[A-Z][a-z]{2}/.test(header) ? Date.parse(header) - Date.now() : NaN
  return Number.isNaN(ms) ? undefined : Math.max(0, Math.ceil(ms / 1000))
}
