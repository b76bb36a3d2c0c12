import { readText } from './chunks.js'
import { ClientError, isClientError, type ErrorDetail } from './errors.js'
import { isObject } from './json-object.js'
import type { MaybePromise, Settings } from './options.js'
import { parseRetryAfter, pause, retryDelay } from './pause.js'
import { Scope } from './scope.js'

/** One request. */
export interface Call {
  readonly method?: string
  readonly url: URL
  /** Without those that are `undefined`. */
  readonly headers?: Readonly<Record<string, string | undefined>>
  /** Made anew for each try. */
  readonly body?: (() => MaybePromise<Blob | ReadableStream<Uint8Array> | string>) | undefined
  readonly signal?: AbortSignal | undefined
  /** A status of 400 or above that is no error here. */
  readonly expects?: number
}

/** An answer with a body of JSON. */
export interface Answer {
  readonly status: number
  readonly headers: Headers
  /** What relative references of the answer begin at. */
  readonly url: string
  /** The body; `undefined` when there is none. */
  readonly json: unknown
}

/** JSON is read whole, so it has a bound. */
const MAX_JSON_BYTES = 64 * 1024 * 1024
const MAX_ERROR_BYTES = 64 * 1024 * 1024

/**
 * Sends a request once. `read` gets the answer when its status is below 400, and closes the scope
 * when it is done with it. Rejects with a `ClientError`, with the signal's reason, or with what the
 * caller's own `headers` throw.
 */
export async function send<T>(settings: Settings, call: Call, read: (response: Response, scope: Scope) => MaybePromise<T>): Promise<T> {
  const { method = 'GET', url, headers = {}, body, signal, expects } = call
  const fields: Record<string, string> = {}
  // Whoever a Location points at gets no credentials.
  const own = url.origin === settings.base.origin ? await settings.headers() : {}
  for (const [name, value] of [...Object.entries(own), ...Object.entries(headers)]) if (value !== undefined) fields[name.toLowerCase()] = value
  const content = await body?.()
  // Node needs to be told that the answer may begin before the body ends.
  const init: RequestInit & { duplex?: 'half'; cache?: 'no-store' } = { method, headers: fields, cache: 'no-store' }
  if (content !== undefined) Object.assign(init, { body: content }, content instanceof ReadableStream && { duplex: 'half' })
  const scope = new Scope(signal, settings.timeoutMs)
  try {
    const response = await settings.fetch(url.href, { ...init, signal: scope.signal })
    scope.touch()
    if (!response.ok && response.status !== 304 && response.status !== expects) throw await toError(response, scope)
    return await read(response, scope)
  } catch (error) {
    scope.close()
    throw scope.explain(error)
  }
}

/** Reads an answer of JSON. Throws a `ClientError` `bad_answer` when it is none. */
export async function readAnswer(response: Response, scope: Scope, request: URL): Promise<Answer> {
  const { status, headers } = response
  const text = await readText(response, scope, MAX_JSON_BYTES)
  return { status, headers, url: response.url || request.href, json: text.trim() === '' ? undefined : parse(text, status) }
}

function parse(text: string, status: number): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new ClientError('bad_answer', 'The answer is not JSON.', { status, body: text, cause })
  }
}

/**
 * The error of an answer of 400 and above: `{ error, code, details }` or a problem (RFC 9457), or
 * whatever there is.
 */
async function toError(response: Response, scope: Scope): Promise<ClientError> {
  const { status, headers } = response
  const retryAfter = parseRetryAfter(headers.get('retry-after'))
  let body: unknown
  try {
    const text = await readText(response, scope, MAX_ERROR_BYTES)
    body = text
    body = JSON.parse(text)
  } catch (error) {
    // A proxy's page, or an answer that broke off: its status counts. The caller's own wish to stop
    // goes first.
    if (scope.signal.aborted) throw error
  }
  const members = isObject(body) ? body : {}
  const words = [members['error'], members['detail'], members['title'], members['message']]
  const message = words.find((word): word is string => typeof word === 'string') ?? `The server answered with ${status}.`
  const code = typeof members['code'] === 'string' ? members['code'] : `http_${status}`
  const details = Array.isArray(members['details']) ? members['details'] as ErrorDetail[] : undefined
  return new ClientError(code, message, { status, details, retryAfter, body })
}

/**
 * What may be tried again. `read`: any fault that may pass. `keyed`: the same for a request with an
 * Idempotency-Key, but not where the work itself has failed. `refused`: only what the server did
 * not begin, because it asks to come again.
 */
export type Repeat = 'read' | 'keyed' | 'refused'

const PASSING = new Set([408, 425, 429, 502, 503, 504])
/**
 * The work was begun and took too long; it would again. With Retry-After it goes on, or was not
 * begun.
 */
const ENDED = new Set(['sync_timeout', 'run_timeout', 'task_timeout'])
/** Nothing came, or not all of it. */
const LOST = new Set(['network_error', 'timeout'])

/** Whether the same request may do better later. */
export function mayPass(error: unknown, repeat: Repeat): error is ClientError {
  if (!isClientError(error)) return false
  const { status, code, retryAfter } = error
  const ended = ENDED.has(code) && !(code === 'sync_timeout' && retryAfter !== undefined)
  if (repeat === 'refused') return status === 429 || (status === 503 && retryAfter !== undefined && !ended)
  if (LOST.has(code)) return true
  if (repeat === 'keyed') return (PASSING.has(status) && !ended) || code === 'idempotent_request_running'
  return PASSING.has(status) || (status >= 500 && status !== 501)
}

/** Runs `work` until it succeeds, or has failed too often, or for good. */
export async function retrying<T>(settings: Settings, repeat: Repeat, signal: AbortSignal | undefined, work: () => Promise<T>): Promise<T> {
  for (let failures = 1; ; failures++) {
    try {
      return await work()
    } catch (error) {
      if (failures >= settings.attempts || !mayPass(error, repeat)) throw error
      const ms = retryDelay(settings, failures, error)
      if (ms === undefined) throw error
      await pause(ms, signal)
    }
  }
}

/** Sends a request for JSON, as often as it takes. */
export function ask(settings: Settings, repeat: Repeat, call: Call): Promise<Answer> {
  return retrying(settings, repeat, call.signal, () => send(settings, call, (response, scope) => readAnswer(response, scope, call.url)))
}

/** A key of 128 random bits. `crypto.randomUUID` is for secure pages only. */
export function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join('')
}
