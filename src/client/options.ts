import type { MaybePromise } from '../wire/maybe-promise.js'
import { checkNames, checkWhole, ClientError } from './errors.js'

/** Options that the calls of a client share. */
export interface CallOptions {
  /** Stops the call. A task on the server continues. */
  readonly signal?: AbortSignal
  /** Additional headers. */
  readonly headers?: Readonly<Record<string, string>>
  /**
   * Path of the status resource, with `{id}` for the identifier.
   *
   * Required if the response does not name the resource, or if the page may not read its
   * `Location`.
   */
  readonly statusPath?: string
}

/** Retries of requests that failed. All times are in milliseconds. */
export interface RetryOptions {
  /** Failures in a row after which the last one is thrown. Default: 8, about half a minute. */
  readonly attempts?: number
  /**
   * First delay. Each further delay is twice as long, less a random part of up to a half. Default:
   * 250.
   */
  readonly baseMs?: number
  /** Longest delay. A longer `Retry-After` throws the error instead. Default: 30 000. */
  readonly maxMs?: number
}

/** Delays between polls if the server sends no `Retry-After`. They grow. */
export interface PollOptions {
  /** First delay, in milliseconds. Default: 500. */
  readonly baseMs?: number
  /** Longest delay, in milliseconds. Default: 10 000. */
  readonly maxMs?: number
}

/** Options of `createClient`. */
export interface ClientOptions {
  /**
   * Prefix of all paths. May be relative in browsers. Default: the origin of the page; required in
   * Node.
   */
  readonly baseUrl?: string | URL
  /** Replaces the global `fetch`: for cookies, a proxy or a test. Default: the global `fetch`. */
  readonly fetch?: typeof globalThis.fetch
  /**
   * Headers of every request to the origin of `baseUrl`, such as `authorization`. A function is
   * called before each attempt.
   */
  readonly headers?:
    | Readonly<Record<string, string>> | (() => MaybePromise<Readonly<Record<string, string>>>)
  /** Retries of requests that failed. */
  readonly retry?: RetryOptions
  /**
   * Delays between polls if the server sends no `Retry-After`, in milliseconds. They grow. Default:
   * from `baseMs` (500) to `maxMs` (10 000).
   */
  readonly poll?: PollOptions
  /** Waits for tasks by server-sent events. If `false`, the client polls. Default: true. */
  readonly events?: boolean
  /**
   * Maximum silence of the server, in milliseconds; after it, the request is lost. Default: 60 000.
   */
  readonly timeoutMs?: number
  /** Streams uploads. Browsers need HTTP/2 for that. Default: true, but false in browsers. */
  readonly streamUploads?: boolean
}

export interface Settings extends Required<RetryOptions> {
  readonly base: URL
  readonly fetch: typeof globalThis.fetch
  readonly headers: () => MaybePromise<Readonly<Record<string, string>>>
  readonly pollBaseMs: number
  readonly pollMaxMs: number
  readonly events: boolean
  readonly timeoutMs: number
  readonly streamUploads: boolean
  /** Treatment of an Idempotency-Key by each endpoint, as far as its responses have shown. */
  readonly keys: Map<string, 'honoured' | 'ignored' | 'rejected'>
}

/** The longest time of a timer, in milliseconds: a longer one would fire at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1

export function toSettings(options: ClientOptions): Settings {
  checkNames('createClient', options, [
    'baseUrl', 'fetch', 'headers', 'retry', 'poll', 'events', 'timeoutMs', 'streamUploads',
  ])
  const { headers = {}, retry = {}, poll = {}, events = true, timeoutMs = 60_000, fetch } = options
  checkNames('createClient: retry', retry, ['attempts', 'baseMs', 'maxMs'])
  checkNames('createClient: poll', poll, ['baseMs', 'maxMs'])
  const { attempts = 8, baseMs = 250, maxMs = 30_000 } = retry
  const { baseMs: pollBaseMs = 500, maxMs: pollMaxMs = 10_000 } = poll
  checkWhole('createClient: retry', { attempts })
  checkWhole('createClient: retry', { baseMs, maxMs }, MAX_TIMER_MS)
  checkWhole('createClient: poll', { baseMs: pollBaseMs, maxMs: pollMaxMs }, MAX_TIMER_MS)
  checkWhole('createClient', { timeoutMs }, MAX_TIMER_MS)
  return {
    base: toBase(options.baseUrl),
    fetch: fetch ?? ((input, init) => globalThis.fetch(input, init)),
    headers: typeof headers === 'function' ? headers : () => headers,
    attempts, baseMs, maxMs, pollBaseMs, pollMaxMs, events, timeoutMs,
    streamUploads: options.streamUploads ?? !inBrowser(),
    keys: new Map(),
  }
}

function toBase(baseUrl: string | URL = '/'): URL {
  const page = (globalThis as { location?: { href?: string } }).location?.href
  const base = parseUrl(baseUrl, page)
  if (base) return checkCredentials('createClient: baseUrl', base)
  throw new TypeError('createClient: baseUrl must be an http or https URL, such as '
    + 'https://api.example; only in a browser may it be relative')
}

function parseUrl(reference: string | URL, base?: string | URL): URL | undefined {
  try {
    const url = new URL(reference, base)
    return /^https?:$/.test(url.protocol) ? url : undefined
  } catch {
    return undefined
  }
}

/** `fetch` rejects a URL with credentials. The rejection would look like a broken connection. */
function checkCredentials(where: string, url: URL): URL {
  if (url.username === '' && url.password === '') return url
  throw new TypeError(`${where} must not have a user name or a password;`
    + ' send an authorization header with the option headers')
}

/**
 * Value of the Incremental header of a request (RFC 10036), for proxies. A browser would ask
 * another origin first whether it allows the header.
 */
export function incremental(): '?1' | undefined {
  return inBrowser() ? undefined : '?1'
}

function inBrowser(): boolean {
  return 'document' in globalThis || 'importScripts' in globalThis
}

export function resolvePath({ base }: Settings, path: string): URL {
  if (/^https?:\/\//i.test(path)) return checkCredentials('path', new URL(path))
  const prefix = base.pathname.replace(/\/+$/, '')
  return new URL(`${base.origin}${prefix}/${path.replace(/^\/+/, '')}`)
}

export function statusUrl(settings: Settings, statusPath: string, id: string): URL {
  return resolvePath(settings, statusPath.replace('{id}', encodeURIComponent(id)))
}

export function serverUrl(reference: string, base: string | URL): URL {
  const url = parseUrl(reference, base)
  if (!url) throw new ClientError('bad_answer', 'The server named no http or https URL.')
  url.username = url.password = ''
  return url
}
