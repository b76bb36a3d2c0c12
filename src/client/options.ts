import { checkNames } from './option-names.js'
/** A value, or a promise of it. */
export type MaybePromise<T> = T | Promise<T>

/** How a client comes back after a failure. All times are in milliseconds. */
export interface RetryOptions {
  /**
   * Failures in a row until the last one is thrown; 1 for no second try. Default 8, which is half a
   * minute.
   */
  readonly attempts?: number
  /**
   * The first pause; each further one is twice as long, and up to a half of it is random. Default
   * 250.
   */
  readonly baseMs?: number
  /**
   * The longest pause. A server whose Retry-After asks for more gets its error thrown instead.
   * Default 30 000.
   */
  readonly maxMs?: number
}

/** How `createClient` is set up. */
export interface ClientOptions {
  /**
   * Where the paths begin: `https://api.example/v1`. In a browser it may be relative, and is the
   * page's origin by default.
   */
  readonly baseUrl?: string | URL
  /** In place of the global `fetch`: for cookies, a proxy or a test. */
  readonly fetch?: typeof globalThis.fetch
  /**
   * Header fields for every request, such as `authorization`. A function is asked before each try,
   * so that it can renew a token. They are never sent to another origin than that of `baseUrl`,
   * whatever a Location says.
   */
  readonly headers?: Readonly<Record<string, string>> | (() => MaybePromise<Readonly<Record<string, string>>>)
  /** Retries of requests that failed. */
  readonly retry?: RetryOptions
  /**
   * Pauses between polls, in milliseconds, where the server says nothing of them: from `baseMs`
   * (500), growing, to `maxMs` (10 000).
   */
  readonly poll?: { readonly baseMs?: number; readonly maxMs?: number }
  /**
   * Whether server-sent events are asked for where a task is waited on. Default true; without them
   * it is polled.
   */
  readonly events?: boolean
  /**
   * The longest silence of a server until a request counts as lost, in milliseconds. Default 60
   * 000.
   */
  readonly timeoutMs?: number
  /**
   * Whether uploads are streamed. Default: everywhere but in browsers, which can do it over HTTP/2
   * only, and some not at all.
   */
  readonly streamUploads?: boolean
}

/** The options with their defaults. */
export interface Settings {
  readonly base: URL
  readonly fetch: typeof globalThis.fetch
  readonly headers: () => MaybePromise<Readonly<Record<string, string>>>
  readonly attempts: number
  readonly baseMs: number
  readonly maxMs: number
  readonly pollBaseMs: number
  readonly pollMaxMs: number
  readonly events: boolean
  readonly timeoutMs: number
  readonly streamUploads: boolean
}

const KNOWN = {
  baseUrl: 0, fetch: 0, headers: 0, retry: 0, poll: 0, events: 0, timeoutMs: 0, streamUploads: 0,
} satisfies Record<keyof ClientOptions, 0>
const RETRY = { attempts: 0, baseMs: 0, maxMs: 0 } satisfies Record<keyof RetryOptions, 0>
const POLL = { baseMs: 0, maxMs: 0 } satisfies Record<keyof NonNullable<ClientOptions['poll']>, 0>

/** Throws a `TypeError` when an option makes no sense. */
export function toSettings(options: ClientOptions): Settings {
  checkNames('createClient', options, KNOWN)
  const { headers = {}, retry = {}, poll = {}, events = true, timeoutMs = 60_000, fetch } = options
  checkNames('createClient: retry', retry, RETRY)
  checkNames('createClient: poll', poll, POLL)
  const { attempts = 8, baseMs = 250, maxMs = 30_000 } = retry
  const { baseMs: pollBaseMs = 500, maxMs: pollMaxMs = 10_000 } = poll
  if (!Number.isInteger(attempts) || attempts < 1) throw new TypeError('createClient: retry.attempts must be a whole number from 1')
  for (const [name, ms] of Object.entries({ 'retry.baseMs': baseMs, 'retry.maxMs': maxMs, 'poll.baseMs': pollBaseMs, 'poll.maxMs': pollMaxMs, timeoutMs })) {
    if (!(ms >= 1 && ms <= 2 ** 31 - 1)) throw new TypeError(`createClient: ${name} must be from 1 to 2147483647`)
  }
  return {
    base: toBase(options.baseUrl),
    fetch: fetch ?? ((input, init) => globalThis.fetch(input, init)),
    headers: typeof headers === 'function' ? headers : () => headers,
    attempts, baseMs, maxMs, pollBaseMs, pollMaxMs, events, timeoutMs,
    streamUploads: options.streamUploads ?? !inBrowser(),
  }
}

function toBase(baseUrl: string | URL = '/'): URL {
  const page = (globalThis as { location?: { href?: string } }).location?.href
  try {
    const base = new URL(baseUrl, page)
    if (/^https?:$/.test(base.protocol)) return base
  } catch {
    // Said below.
  }
  throw new TypeError('createClient: baseUrl must be an http or https URL, such as https://api.example; only in a browser may it be relative')
}

function inBrowser(): boolean {
  return 'document' in globalThis || 'importScripts' in globalThis
}

/** The URL of a path below the base; an absolute http(s) URL is left as it is. */
export function resolvePath({ base }: Settings, path: string): URL {
  if (/^https?:\/\//i.test(path)) return new URL(path)
  return new URL(`${base.origin}${base.pathname.replace(/\/+$/, '')}/${path.replace(/^\/+/, '')}`)
}
