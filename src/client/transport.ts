import { readText } from './chunks.js'
import { ClientError, isClientError, type ErrorDetail } from './errors.js'
import { isObject } from './json-object.js'
import type { MaybePromise, Settings } from './options.js'
import { parseRetryAfter, pause, retryDelay } from './pause.js'
import { fetchFollowing } from './redirects.js'
import { Scope } from './scope.js'

/** One request. */
export interface Call {
  /** HTTP method. Default GET. */
  readonly method?: string
  readonly url: URL
  /**
   * Origin that the application has named: it alone receives the header fields of the application.
   * @default that of `url`
   */
  readonly origin?: string
  /** Header fields. Those that are `undefined` are not sent. */
  readonly headers?: Readonly<Record<string, string | undefined>>
  /** Creates the body. Called for each attempt. */
  readonly body?: (() => MaybePromise<Blob | ReadableStream<Uint8Array> | string>) | undefined
  readonly signal?: AbortSignal | undefined
  /** A status of 400 or above that is not an error of this request. */
  readonly expects?: number
  /** Called with the header fields and the status of the answer, also if it is an error. */
  readonly onHeaders?: (headers: Headers, status: number) => void
}

/** An answer with a JSON body. */
export interface Answer {
  readonly status: number
  readonly headers: Headers
  /** Base URL of relative references in the answer. */
  readonly url: string
  /** The parsed body. `undefined` if it is empty. */
  readonly json: unknown
}

/** Maximum size of a JSON body, because it is read whole. */
const MAX_JSON_BYTES = 64 * 1024 * 1024

/**
 * Sends a request once. If the status is below 400, calls `read`, which closes the scope when it
 * is done.
 *
 * Rejects with a `ClientError`, with the reason of the signal, or with what the caller's `headers`
 * function throws.
 */
export async function send<T>(
  settings: Settings, call: Call,
  read: (response: Response, scope: Scope, url: string) => MaybePromise<T>,
): Promise<T> {
  const { method = 'GET', url, origin = url.origin, headers = {}, body, signal, expects } = call
  const fields: Record<string, string> = {}
  // The server may have named another origin, which must not receive credentials.
  const own = url.origin === settings.base.origin ? await settings.headers() : {}
  for (const [name, value] of [...Object.entries(own), ...Object.entries(headers)]) {
    if (value !== undefined) fields[name.toLowerCase()] = value
  }
  const content = await body?.()
  const scope = new Scope(signal, settings.timeoutMs)
  try {
    const sending = { method, url, headers: fields, body: content, origin }
    const { response, url: last } = await fetchFollowing(settings, sending, scope)
    const { ok, status } = response
    call.onHeaders?.(response.headers, status)
    if (!ok && status !== 304 && status !== expects) throw await toError(response, scope)
    return await read(response, scope, last)
  } catch (error) {
    scope.close()
    throw scope.explain(error)
  }
}

/**
 * Reads an answer of JSON.
 * @throws {ClientError} `bad_answer`: the body is not JSON.
 */
export async function readAnswer(response: Response, scope: Scope, url: string): Promise<Answer> {
  const { status, headers } = response
  const text = await readText(response, scope, MAX_JSON_BYTES)
  const json = text.trim() === '' ? undefined : parse(text, status)
  return { status, headers, url, json }
}

function parse(text: string, status: number): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new ClientError('bad_answer', 'The answer is not JSON.', { status, body: text, cause })
  }
}

/**
 * Returns the error of an answer of 400 or above. Its body may be `{ error, code, details }`, a
 * problem (RFC 9457) or anything else.
 */
async function toError(response: Response, scope: Scope): Promise<ClientError> {
  const { status, headers } = response
  const retryAfter = parseRetryAfter(headers.get('retry-after'))
  let body: unknown
  try {
    const text = await readText(response, scope, MAX_JSON_BYTES)
    body = text
    body = JSON.parse(text)
  } catch (error) {
    if (scope.signal.aborted) throw error
    // The page of a proxy, or a truncated answer. Its status is enough for an error.
  }
  const members = isObject(body) ? body : {}
  const message = [members['error'], members['detail'], members['title'], members['message']]
    .find((text): text is string => typeof text === 'string')
  const { code, details } = members
  return new ClientError(
    typeof code === 'string' ? code : `http_${status}`,
    message ?? `The server answered with ${status}.`,
    {
      status, retryAfter, body,
      details: Array.isArray(details) ? details as ErrorDetail[] : undefined,
    },
  )
}

/**
 * Failures after which a request is sent again.
 * - `read`: every temporary failure.
 * - `keyed`: the same for a request with an Idempotency-Key, unless the work itself has failed.
 * - `refused`: only requests that the server refused before it did any work.
 */
export type Repeat = 'read' | 'keyed' | 'refused'

/** Statuses of temporary failures. */
const TEMPORARY = new Set([408, 425, 429, 502, 503, 504])
/** Codes of work that took too long. It would again, unless the answer has Retry-After. */
const TIMED_OUT = new Set(['sync_timeout', 'run_timeout', 'task_timeout'])
/** Codes of answers that did not arrive, or not whole. */
const LOST = new Set(['network_error', 'timeout'])

/** Returns whether the same request may succeed later. */
export function canRetry(error: unknown, repeat: Repeat): error is ClientError {
  if (!isClientError(error)) return false
  const { status, code, retryAfter } = error
  const ended = TIMED_OUT.has(code) && !(code === 'sync_timeout' && retryAfter !== undefined)
  if (repeat === 'refused') {
    return status === 429 || (status === 503 && retryAfter !== undefined && !ended)
  }
  if (LOST.has(code)) return true
  if (repeat === 'keyed') {
    return (TEMPORARY.has(status) && !ended) || code === 'idempotent_request_running'
  }
  return TEMPORARY.has(status) || (status >= 500 && status !== 501)
}

/**
 * Runs `work` until it succeeds, fails permanently, or has failed too often.
 *
 * @param repeat - failures after which to run it again; or a function that decides
 */
export async function retrying<T>(
  settings: Settings, repeat: Repeat | ((error: ClientError) => Promise<boolean>),
  signal: AbortSignal | undefined, work: () => Promise<T>,
): Promise<T> {
  for (let failures = 1; ; failures++) {
    try {
      return await work()
    } catch (error) {
      if (failures >= settings.attempts || !isClientError(error)) throw error
      // Sent again, the items of a report would be processed again.
      const isTemporary = typeof repeat === 'function'
        ? !hasReport(error.body) && await repeat(error)
        : canRetry(error, repeat) && (repeat === 'read' || !hasReport(error.body))
      const ms = isTemporary ? retryDelay(settings, failures, error) : undefined
      if (ms === undefined) throw error
      await pause(ms, signal)
    }
  }
}

/** Returns true if a body reports the outcome of at least one item or record. */
function hasReport(body: unknown): boolean {
  const summary = isObject(body) ? body['summary'] : undefined
  return isObject(summary) && typeof summary['total'] === 'number' && summary['total'] > 0
}

/** Sends a request for JSON, with retries. */
export function ask(settings: Settings, repeat: Repeat, call: Call): Promise<Answer> {
  return retrying(settings, repeat, call.signal, () => (
    send(settings, call, readAnswer)
  ))
}

/** Returns 128 random bits in hex. `crypto.randomUUID` exists on secure pages only. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}
