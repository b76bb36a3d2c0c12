import { OutgoingBody } from '../http/body/outgoing.js'
import { closeUnread, isStreamed } from '../http/body/source.js'
import { failureResponse, guard, type OnError } from '../http/boundary.js'
import { plainRequest, cleanMountPath, pathUnder, splitTarget } from '../http/request.js'
import type {
  BodySource, Handler, HttpRequest, HttpResponse, RequestHeaders, ResponseHeaders,
} from '../http/exchange.js'
import { copyHeadersToError, notFound } from '../http/respond.js'
import { isHeaderValue } from '../http/headers/reader.js'
import { func, readOptions, text, value, type OptionTable } from '../runtime/options.js'
import { ContentDigest } from '../http/headers/digests.js'
import { httpError } from '../http/errors.js'
import { gather } from '../runtime/text.js'

/** A request for `inject`. */
export interface InjectOptions<C = unknown> {
  /** @default 'GET' */
  readonly method?: string
  /** The path with its query, such as `/tasks?limit=5`. */
  readonly path: string
  /** Header names may have any case. */
  readonly headers?: RequestHeaders
  /**
   * Body. Any value but a string, bytes or a stream is sent as JSON, with `content-type:
   * application/json` unless `headers` names a type. Default: no body.
   */
  readonly body?: unknown
  /** Path parameters of your router, decoded. @default {} */
  readonly params?: Readonly<Record<string, string>>
  /** Start of the path, under which the handler is mounted. @default '' */
  readonly mountPath?: string
  /** Address of the client. @default '127.0.0.1' */
  readonly peerAddress?: string
  /** Abort it to disconnect the client. */
  readonly signal?: AbortSignal
  /** Receives the errors that are masked to the client. Default: a process warning. */
  readonly onError?: OnError
  /** Properties that your framework attaches to a request, such as its user. */
  readonly context?: C
}

const OPTIONS = {
  method: text({ default: 'GET' }), headers: value(), body: value(), params: value(),
  path: text({
    pattern: /^\//, expects: 'a string that starts with "/", such as /tasks?limit=5', required: true,
  }),
  mountPath: text({ pattern: /^/, default: '' }), peerAddress: text({ default: '127.0.0.1' }),
  signal: value(), onError: func(), context: value(),
} satisfies OptionTable<InjectOptions>
const NO_BODY = new Uint8Array(0)

/**
 * Calls a handler with a request and returns its response, without a server. An error that the
 * handler throws becomes an error response, and a request that it declines gets a 404.
 *
 * @example
 * const response = await inject(handler, { method: 'POST', path: '/reports', body: { year: 2025 } })
 * response.status // 200
 * await response.json()
 *
 * @throws {TypeError} `path` does not start with `/`, `body` cannot be sent, or an option is unknown.
 */
export async function inject<C>(
  handler: Handler<C>,
  request: InjectOptions<C> & (Record<never, never> extends C ? unknown : { readonly context: C }),
): Promise<InjectedResponse> {
  const exchange = toRequest<C>(request)
  const { onError } = request
  const response = await guard(handler, { onError })(exchange)
  const rescue = (error: unknown): HttpResponse => failureResponse(error, exchange, onError)
  if (response === undefined) return received(exchange, rescue(notFound(exchange)), rescue)
  try {
    return await received(exchange, response, rescue)
  } catch (error) {
    copyHeadersToError(error, response)
    return received(exchange, rescue(error), rescue)
  }
}

function toRequest<C>(options: InjectOptions<C>): HttpRequest<C> {
  const { method, params = {}, peerAddress, path, ...given } = readOptions(
    'inject', options as InjectOptions, OPTIONS,
  )
  const target = splitTarget(path)
  const mountPath = cleanMountPath(given.mountPath)
  const headers: Record<string, string | string[] | undefined> = { host: 'localhost' }
  for (const [name, value] of Object.entries(options.headers ?? {})) {
    headers[name.toLowerCase()] = value
  }
  const content = contentOf(options.body, headers)
  if (content instanceof Uint8Array && options.body !== undefined) {
    headers['content-length'] ??= String(content.byteLength)
  }
  return plainRequest({
    method, params, peerAddress, headers, mountPath,
    path: pathUnder(mountPath, target.path, ''),
    search: target.search,
    query: new URLSearchParams(target.search),
    body: new InjectedBody(content, headers),
    signal: options.signal ?? new AbortController().signal,
    context: (options.context ?? {}) as C,
    raw: options,
  })
}

/** Adds the content type of a JSON value. */
function contentOf(
  body: unknown, headers: Record<string, string | string[] | undefined>,
): Uint8Array | AsyncIterable<Uint8Array | string> {
  if (body === undefined) return NO_BODY
  if (typeof body === 'string') return Buffer.from(body)
  if (body instanceof Uint8Array) return body
  if (isStream(body)) return body
  const text = JSON.stringify(body) as string | undefined
  if (text === undefined) {
    throw new TypeError('inject: body must be JSON, a string, bytes or a stream')
  }
  headers['content-type'] ??= 'application/json'
  return Buffer.from(text)
}

function isStream(body: unknown): body is AsyncIterable<Uint8Array | string> {
  return typeof body === 'object' && body !== null && Symbol.asyncIterator in body
}

/** Rejects if a server could not send the response: an invalid header, a stream that fails at once. */
async function received(
  request: HttpRequest, { status, headers, body }: HttpResponse,
  rescue: (error: unknown) => HttpResponse,
): Promise<InjectedResponse> {
  checkValues(headers)
  const report = (error: unknown): void => { rescue(error) }
  const hasNoBody = request.method === 'HEAD' || status === 204 || status === 304
  if (!isStreamed(body)) {
    const bytes = typeof body === 'string' ? Buffer.from(body) : body ?? NO_BODY
    const hasLength = body !== undefined || !hasNoBody
    const sent = hasLength && status !== 204 && status !== 304
      ? { ...headers, 'content-length': String(bytes.byteLength) } : headers
    return new InjectedResponse(status, sent, hasNoBody ? NO_BODY : bytes, report)
  }
  if (hasNoBody || request.signal.aborted) {
    closeUnread(body)
    return new InjectedResponse(status, headers, NO_BODY, report)
  }
  const source = new OutgoingBody(body, headers)
  request.signal.addEventListener('abort', () => { source.close() }, { once: true })
  try {
    await source.begin()
  } catch (error) {
    source.close()
    throw error
  }
  return new InjectedResponse(status, headers, source, report)
}

function checkValues(headers: ResponseHeaders): void {
  for (const [name, value] of Object.entries(headers)) {
    for (const line of typeof value === 'string' ? [value] : value) {
      if (isHeaderValue(line)) continue
      throw new TypeError(`The response header ${name} has characters that no header may have`)
    }
  }
}

export class InjectedBody implements BodySource {
  readonly parsed = undefined
  #read = false
  #stop: (() => void) | undefined
  #stopped = false

  constructor(
    private readonly content: Uint8Array | AsyncIterable<Uint8Array | string>,
    private readonly headers: RequestHeaders,
  ) {}

  bytes(limit: number): Promise<Uint8Array | undefined> {
    return gather(this.stream(), limit)
  }

  stream(): AsyncGenerator<Uint8Array, void, undefined> {
    const digest = ContentDigest.of(this.headers)
    return digest === undefined ? this.#pieces() : digest.checked(this.#pieces())
  }

  stop(): void {
    this.#stopped = true
    this.#stop?.()
  }

  async* #pieces(): AsyncGenerator<Uint8Array, void, undefined> {
    if (this.#read) throw new Error('The body of this request can be read only once')
    this.#read = true
    const { content } = this
    if (content instanceof Uint8Array) {
      if (content.byteLength > 0) yield content
      return
    }
    const source = content[Symbol.asyncIterator]()
    try {
      for (;;) {
        const step = await this.#next(source)
        if (step.done === true) return
        yield typeof step.value === 'string' ? Buffer.from(step.value) : step.value
      }
    } finally {
      // Not awaited, because a waiting source would delay the end.
      source.return?.().catch(() => undefined)
    }
  }

  #next(source: AsyncIterator<Uint8Array | string>): Promise<IteratorResult<Uint8Array | string>> {
    return new Promise((resolve, reject) => {
      const stop = (): void => { reject(httpError('incomplete_body')) }
      this.#stop = stop
      if (this.#stopped) this.#stop()
      else source.next().then(resolve, reject)
    })
  }
}

type Headers = Readonly<Record<string, string | string[]>>

/** The response of a handler, as a client would receive it. */
export class InjectedResponse {
  #whole: Uint8Array | Promise<Uint8Array> | undefined
  #streamed = false

  /**
   * Use `inject`.
   *
   * @param headers - with lower-case names. A server sends each item of a list as a line
   */
  constructor(
    readonly status: number, readonly headers: Headers,
    private readonly body: Uint8Array | OutgoingBody,
    private readonly onFailure: (error: unknown) => void,
  ) {}

  /** Returns the body parsed as JSON. Throws a `SyntaxError` if it is not JSON. */
  async json<T = unknown>(): Promise<T> {
    return JSON.parse(await this.text()) as T
  }

  /** Returns the body as UTF-8 text. */
  async text(): Promise<string> {
    return new TextDecoder().decode(await this.bytes())
  }

  /**
   * Returns the whole body.
   *
   * @throws {Error} The stream failed midway, with its error as `cause`. A server would cut the connection.
   */
  async bytes(): Promise<Uint8Array> {
    return this.#whole ??= this.body instanceof OutgoingBody ? gather(this.stream()) as Promise<Uint8Array> : this.body
  }

  /** Returns the chunks of the body, once. Stop early to close an event stream. */
  async* stream(): AsyncGenerator<Uint8Array, void, undefined> {
    const source = this.body
    if (!(source instanceof OutgoingBody)) {
      yield source
      return
    }
    if (this.#streamed) throw new Error('The body of this response was read before')
    this.#streamed = true
    try {
      for (let chunk = await source.next(); chunk !== undefined; chunk = await source.next()) {
        yield typeof chunk === 'string' ? Buffer.from(chunk) : chunk
      }
    } catch (error) {
      this.onFailure(error)
      throw new Error('The stream of this response failed before its end', { cause: error })
    } finally {
      source.close()
    }
  }
}
