import type { MaybePromise } from '../wire/maybe-promise.js'
import { isClientError, isObject, type ClientError } from './errors.js'
import { MAX_TIMER_MS, type Settings } from './options.js'
import { readAnswer, send, type Answer, type ClientRequest } from './send.js'

/**
 * Failures after which a request is sent again. `read`: all temporary failures. `keyed`: temporary
 * failures, unless the work itself has failed. `refused`: only rejections before any work.
 */
export type Repeat = 'read' | 'keyed' | 'refused'

const TEMPORARY = new Set([408, 425, 429, 502, 503, 504])
/**
 * Codes of work that took too long. A repeated request would take too long as well, unless the
 * response has Retry-After.
 */
const TIMED_OUT = new Set(['sync_timeout', 'run_timeout', 'task_timeout'])
/** Codes of responses that did not arrive completely. */
const LOST = new Set(['network_error', 'timeout'])
const MAX_ENDPOINTS = 1000

export function canRetry(error: unknown, repeat: Repeat): error is ClientError {
  if (!isClientError(error)) return false
  const { status, code, retryAfter } = error
  if (repeat === 'read') {
    return LOST.has(code) || TEMPORARY.has(status) || (status >= 500 && status !== 501)
  }
  // Sent again, the items of a report would be processed again.
  if (hasReport(error.body)) return false
  const ended = TIMED_OUT.has(code) && !(code === 'sync_timeout' && retryAfter !== undefined)
  if (repeat === 'refused') {
    return status === 429 || (status === 503 && retryAfter !== undefined && !ended)
  }
  return LOST.has(code) || code === 'idempotent_request_running' || (TEMPORARY.has(status) && !ended)
}

function hasReport(body: unknown): boolean {
  const summary = isObject(body) ? body['summary'] : undefined
  return isObject(summary) && typeof summary['total'] === 'number' && summary['total'] > 0
}

type MayRepeat = Repeat | ((error: ClientError) => MaybePromise<boolean>)

/** An error of an attempt. */
interface Failed {
  readonly error: unknown
  /** Number of failures in a row, this one included. */
  readonly failures: number
}

/** Waits before the next attempt. Rejects with the error if there is none. */
export async function backOff(
  settings: Settings, { error, failures }: Failed,
  repeat: MayRepeat, signal: AbortSignal | undefined,
): Promise<void> {
  if (failures >= settings.attempts || !isClientError(error)) throw error
  const isTemporary = typeof repeat === 'function' ? await repeat(error) : canRetry(error, repeat)
  const ms = isTemporary ? retryDelay(settings, failures, error) : undefined
  if (ms === undefined) throw error
  await pause(ms, signal)
}

/**
 * Returns the delay after so many failures in a row: exponential, or what the server asked for.
 * `undefined` if that is too long.
 */
function retryDelay(
  { baseMs, maxMs }: Settings, failures: number, { retryAfter }: ClientError,
): number | undefined {
  const backoff = jitter(Math.min(maxMs, baseMs * 2 ** (failures - 1)))
  if (retryAfter === undefined) return backoff
  const asked = retryAfter * 1000
  return asked > maxMs ? undefined : asked + Math.min(backoff, asked / 10)
}

export function jitter(ms: number): number {
  return ms * (1 - Math.random() / 2)
}

/** Resolves after `ms` milliseconds, 24.8 days at most. Rejects if the signal aborts before. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const over = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', over)
      if (signal?.aborted) reject(signal.reason as Error)
      else resolve()
    }
    const timer = setTimeout(over, Math.min(ms, MAX_TIMER_MS))
    signal?.addEventListener('abort', over)
    if (signal?.aborted) over()
  })
}

export async function retrying<T>(
  settings: Settings, repeat: MayRepeat, signal: AbortSignal | undefined,
  work: () => Promise<T>,
): Promise<T> {
  for (let failures = 1; ; failures++) {
    try {
      return await work()
    } catch (error) {
      await backOff(settings, { error, failures }, repeat, signal)
    }
  }
}

export function ask(
  settings: Settings, repeat: MayRepeat, call: ClientRequest,
): Promise<Answer> {
  return retrying(settings, repeat, call.signal, async () => readAnswer(await send(settings, call)))
}

/** Returns 128 random bits in hex. `crypto.randomUUID` exists on secure pages only. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

export interface KeyedCall extends ClientRequest {
  readonly key: string
  /** True if the application did not choose the key, so the request may also be sent without it. */
  readonly isOptional: boolean
  /**
   * Body of a harmless request that shows if the server honours keys, sent before a lost request is
   * repeated. Absent: the request is repeated anyway. `false`: the request is not repeated.
   */
  readonly question: string | false | undefined
}

/**
 * Sends a request with an Idempotency-Key. If its response was lost, repeats it only where keys are
 * acknowledged, because another server may do the work twice.
 */
export async function askKeyed(settings: Settings, call: KeyedCall): Promise<Answer> {
  const { key, isOptional, question, method, url } = call
  const { keys } = settings
  const endpoint = `${method} ${url.origin}${url.pathname}`
  const note = (treatment: 'honoured' | 'ignored' | 'rejected'): void => {
    keys.delete(endpoint)
    keys.set(endpoint, treatment)
    if (keys.size > MAX_ENDPOINTS) keys.delete(keys.keys().next().value as string)
  }
  const keyed = (plain: ClientRequest, key: string): ClientRequest => ({
    ...plain, headers: { 'idempotency-key': key, ...plain.headers },
    onHeaders: (headers, status) => {
      if (headers.get('idempotency-key') === key) note('honoured')
      // Other failures may come from a proxy, or from before the key is read.
      else if (status < 300) note('ignored')
    },
  })
  /**
   * Asks the server whether it honours keys. After a failure, the server's behaviour remains
   * unknown.
   */
  const askServer = async (body: string): Promise<void> => {
    const { prefer: _, ...headers } = call.headers ?? {}
    try {
      await ask(settings, 'read', keyed({ ...call, headers, body: () => body }, newKey()))
    } catch (error) {
      if (!isClientError(error)) throw error
    }
  }
  const mayRepeat = async (error: ClientError): Promise<boolean> => {
    if (canRetry(error, 'refused')) return true
    if (!canRetry(error, 'keyed')) return false
    if (typeof question === 'string' && !keys.has(endpoint)) await askServer(question)
    return keys.has(endpoint) ? keys.get(endpoint) === 'honoured' : question === undefined
  }
  if (isOptional && keys.get(endpoint) === 'rejected') return ask(settings, 'refused', call)
  try {
    return await ask(settings, mayRepeat, keyed(call, key))
  } catch (error) {
    if (!isClientError(error) || error.code !== 'idempotency_not_supported') throw error
    note('rejected')
    if (!isOptional) throw error
    return ask(settings, 'refused', call)
  }
}
