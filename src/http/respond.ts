import type { HttpRequest, HttpResponse, ResponseHeaders, Handler } from './exchange.js'
import { readFailure, type Failure, reasonPhrase, addFailureHeaders } from './failure.js'
import { closest, parseAccept, type MediaRange } from './headers/accept.js'
import { evaluatePreconditions } from './headers/preconditions.js'
import { headerText, joinLists } from './headers/reader.js'
import { Memo } from '../runtime/collections.js'
import { isPending, type MaybePromise } from '../runtime/maybe-promise.js'
import type { ErrorBody } from '../wire/errors.js'
import { DerivedRequest } from './request.js'
import { httpError, type HttpError } from './errors.js'

const JSON_TYPE = 'application/json'

/**
 * Asks proxies to forward a stream while it arrives: all that know RFC 10036, and nginx. Each
 * message needs the header: that of a request is not about its response.
 */
export const UNBUFFERED = { 'incremental': '?1', 'x-accel-buffering': 'no' } as const

/**
 * Returns a response with `value` as JSON. `headers` (lower-case names) are copied and may set
 * another `content-type`.
 * @example
 * return json(201, user, { location: `/users/${user.id}` })
 */
export function json(
  status: number, value: unknown, headers?: Readonly<ResponseHeaders>,
): HttpResponse {
  // `JSON.stringify` returns undefined for undefined and for functions.
  return jsonText(status, JSON.stringify(value) ?? 'null', headers)
}

export function isNotModified({ method, headers }: HttpRequest<unknown>, etag: string): boolean {
  const outcome = evaluatePreconditions({ method, headers, exists: true, etag })
  if (outcome === 'failed') throw httpError('precondition_failed', { headers: { etag } })
  return outcome === 'not-modified'
}

/** Responds to OPTIONS with `Allow`. Throws 405 `method_not_allowed` for other methods. */
export function respondAllow({ method }: HttpRequest<unknown>, allow: string): HttpResponse {
  if (method === 'OPTIONS') return { status: 200, headers: { allow }, body: '' }
  throw httpError('method_not_allowed', { headers: { allow } })
}

/**
 * Returns a response with `text`, which is JSON already.
 * @example
 * return jsonText(200, await cache.get('report'))
 */
export function jsonText(
  status: number, text: string, headers?: Readonly<ResponseHeaders>,
): HttpResponse {
  return {
    status,
    headers:
      headers === undefined
        ? { 'content-type': JSON_TYPE }
        : { 'content-type': JSON_TYPE, ...headers },
    body: text,
  }
}

/**
 * Returns a response without a body.
 * @example
 * return empty(204)
 */
export function empty(status: number, headers?: Readonly<ResponseHeaders>): HttpResponse {
  return { status, headers: { ...headers } }
}

/**
 * Returns a response with a streamed body. `headers` should set `content-type`. If the body fails
 * midway, the binding breaks the connection, so that clients notice the truncation.
 * @example
 * import { createReadStream } from 'node:fs'
 *
 * const response = stream(200, createReadStream('export.csv'), { 'content-type': 'text/csv' })
 */
export function stream(
  status: number, body: AsyncIterable<Uint8Array | string>, headers?: Readonly<ResponseHeaders>,
): HttpResponse {
  return { status, headers: { ...headers }, body }
}

/**
 * Returns the response for any thrown value: `{ error, code, details? }`, or problem+json (RFC
 * 9457) if the client asks for that. Masks what the client may not see. Never throws.
 */
export function errorResponse(error: unknown, request: HttpRequest): HttpResponse {
  const failure = readFailure(error)
  const problem = asksForProblem(request)
  const headers: ResponseHeaders = { 'cache-control': 'no-store', ...failure.headers }
  headers['content-type'] = problem ? 'application/problem+json' : JSON_TYPE
  addVary(headers, 'Accept')
  return { status: failure.status, headers, body: errorText(failure, problem) }
}

function asksForProblem(request: HttpRequest): boolean {
  try {
    return prefersProblem(request.headers['accept'])
  } catch {
    return false
  }
}

function errorText(failure: Failure, problem: boolean): string {
  const { status, code, message, details, members } = failure
  const about = problem ? { status, title: reasonPhrase(status), detail: message } : {}
  const plain: ErrorBody = { ...about, error: message, code }
  if (details === undefined && members === undefined) return JSON.stringify(plain)
  try {
    return JSON.stringify({ ...plain, details, ...members, ...plain })
  } catch {
    // The details or properties cannot be written as JSON.
    return JSON.stringify(plain)
  }
}

const JSON_RANGE = { type: JSON_TYPE, params: new Map<string, string>() }
const problems = new Memo((text: string) => ({ wanted: wantsProblem(parseAccept(text)) }))

/** Returns true if `Accept` names `application/problem+json` with a `q` not below that of JSON. */
export function prefersProblem(header: string | readonly string[] | undefined): boolean {
  return header !== undefined && header !== '*/*' && problems.get(headerText(header)).wanted
}

function wantsProblem(asked: readonly MediaRange[]): boolean {
  const named = asked.find(
    (range) => range.type === 'application' && range.subtype === 'problem+json',
  )
  return named !== undefined && named.q > 0 && named.q >= (closest(asked, JSON_RANGE)?.q ?? 0)
}

export type AddHeaders = (headers: ResponseHeaders) => void

/**
 * Calls `next` and adds headers to its outcome: a copy of the response, a failure, or the 404 for a
 * request that it declines. Returns a promise only if `next` does.
 */
export function withHeaders<C>(
  next: Handler<C>, request: HttpRequest<C>, addHeaders: AddHeaders,
): MaybePromise<HttpResponse | undefined> {
  try {
    const response = next(request)
    if (!isPending(response)) return toResponse(response, request, addHeaders)
    return response.then(
      (late) => toResponse(late, request, addHeaders),
      (error: unknown) => { throw toFailure(error, addHeaders) },
    )
  } catch (error) {
    throw toFailure(error, addHeaders)
  }
}

function toResponse(
  response: HttpResponse | undefined, request: HttpRequest, addHeaders: AddHeaders,
): HttpResponse | undefined {
  if (response === undefined) {
    const headers = headersForNotFound(request)
    addHeaders(headers)
    notFoundHeaders.set(DerivedRequest.root(request), headers)
    return undefined
  }
  // Faster than a spread followed by additions, which costs several times as much.
  const headers: ResponseHeaders = Object.assign({}, response.headers)
  addHeaders(headers)
  return { ...response, headers }
}

function toFailure(error: unknown, addHeaders: AddHeaders): unknown {
  const headers: ResponseHeaders = {}
  addHeaders(headers)
  addFailureHeaders(error, headers)
  return error
}

/**
 * Headers for the 404 that the binding sends if every handler declines. By the binding's request.
 */
const notFoundHeaders = new WeakMap<object, ResponseHeaders>()

function headersForNotFound(request: HttpRequest): ResponseHeaders {
  return { ...notFoundHeaders.get(DerivedRequest.root(request)) }
}

export function notFound(request: HttpRequest): HttpError {
  const error = httpError('not_found')
  addFailureHeaders(error, headersForNotFound(request))
  return error
}

/** Headers that describe the content of one response. All others describe the exchange. */
const CONTENT_FIELDS = new Set([
  'accept-ranges', 'cache-control', 'etag', 'expires', 'last-modified', 'link', 'location',
  'preference-applied', 'repr-digest', 'retry-after', 'transfer-encoding',
  ...Object.keys(UNBUFFERED),
])

/**
 * Copies the headers that describe the exchange to the error that is sent instead of a response.
 */
export function copyHeadersToError(
  error: unknown, { headers }: { readonly headers: ResponseHeaders },
): void {
  const copied = Object.entries(headers)
    .filter(([name]) => !CONTENT_FIELDS.has(name) && !name.startsWith('content-'))
  addFailureHeaders(error, Object.fromEntries(copied))
}

/**
 * Throws 400 `idempotency_not_supported`. For endpoints that change something and keep no keys: a
 * client that sends a key may repeat its request.
 */
export function refuseIdempotencyKey({ headers }: HttpRequest<unknown>): void {
  if (headers['idempotency-key'] !== undefined) throw httpError('idempotency_not_supported')
}

/**
 * Does the work of a request. Repeats its Idempotency-Key in the response, failures included, to
 * show the client that the request may be repeated.
 */
export function acknowledged<C, R extends HttpResponse | undefined>(
  request: HttpRequest<C>, work: (request: HttpRequest<C>) => Promise<R>,
): Promise<R> {
  const key = request.headers['idempotency-key']
  return typeof key === 'string' ? withKey(key, request, work) : work(request)
}

async function withKey<C, R extends HttpResponse | undefined>(
  key: string, request: HttpRequest<C>, work: (request: HttpRequest<C>) => Promise<R>,
): Promise<R> {
  const headers = { 'idempotency-key': key }
  try {
    const response = await work(request)
    return response && { ...response, headers: { ...response.headers, ...headers } }
  } catch (error) {
    addFailureHeaders(error, headers)
    throw error
  }
}

/** Adds names to the Vary header (RFC 9110 section 12.5.5), in place and without duplicates. */
/** Adds preferences to those that a response says it honours (RFC 7240 section 3). */
export function addApplied(headers: ResponseHeaders, preferences: readonly string[]): void {
  if (preferences.length === 0) return
  const present = headers['preference-applied'] ?? []
  headers['preference-applied'] = joinLists([present, preferences].flat())
}

export function addVary(headers: ResponseHeaders, ...names: readonly string[]): void {
  const present = headers['vary']
  if (present === undefined) {
    headers['vary'] = names.includes('*') ? '*' : names.join(', ')
    return
  }
  const all = joinLists([present, names].flat())
  headers['vary'] = /(?:^| )\*(?:,|$)/.test(all) ? '*' : all
}
