import type { HttpRequest, HttpResponse, ResponseHeaders } from './exchange.js'
import { readFailure, type Failure } from './failure.js'
import { closest, parseAccept, type MediaRange } from './fields/accept.js'
import { addVary } from './fields/fields.js'
import { fieldText } from './fields/reader.js'
import { reasonPhrase } from './reasons.js'
import { Memo } from '../runtime/memo.js'

const JSON_TYPE = 'application/json'

/**
 * Returns a response with `value` as JSON. `headers` (lower-case names) are copied and may set
 * another `content-type`.
 *
 * @example
 * return json(201, user, { location: `/users/${user.id}` })
 */
export function json(
  status: number,
  value: unknown,
  headers?: Readonly<ResponseHeaders>,
): HttpResponse {
  // `JSON.stringify` returns undefined for undefined and for functions.
  return jsonText(status, JSON.stringify(value) ?? 'null', headers)
}

/**
 * Returns a response with `text`, which is JSON already.
 *
 * @example
 * return jsonText(200, await cache.get('report'))
 */
export function jsonText(
  status: number,
  text: string,
  headers?: Readonly<ResponseHeaders>,
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
 *
 * @example
 * return empty(204)
 */
export function empty(status: number, headers?: Readonly<ResponseHeaders>): HttpResponse {
  return { status, headers: { ...headers } }
}

/**
 * Returns a response with a streamed body. `headers` should set `content-type`. If the body fails
 * midway, the binding breaks the connection, so that clients notice the truncation.
 *
 * @example
 * import { createReadStream } from 'node:fs'
 *
 * const answer = stream(200, createReadStream('export.csv'), { 'content-type': 'text/csv' })
 */
export function stream(
  status: number, body: AsyncIterable<Uint8Array | string>, headers?: Readonly<ResponseHeaders>,
): HttpResponse {
  return { status, headers: { ...headers }, body }
}

/**
 * Returns the response for any thrown value: `{ error, code, details? }`. If the client accepts
 * `application/problem+json`, adds `status`, `title` and `detail` (RFC 9457). Masks what the client
 * may not see, as `readFailure` describes. Never throws.
 *
 * @example
 * try {
 *   return await handler(request)
 * } catch (error) {
 *   return errorResponse(error, request)
 * }
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
  const plain = { ...about, error: message, code }
  if (details === undefined && members === undefined) return JSON.stringify(plain)
  try {
    return JSON.stringify({ ...plain, details, ...members, ...plain })
  } catch {
    // The host's details or members cannot be written as JSON.
    return JSON.stringify(plain)
  }
}

const JSON_RANGE = { type: JSON_TYPE, params: new Map<string, string>() }
const problems = new Memo((text: string) => ({ wanted: wantsProblem(parseAccept(text)) }))

/**
 * Returns whether errors are sent as `application/problem+json`. Requires that `Accept` names this
 * type with a `q` above 0. The `q` must not be lower than that of `application/json`, named or by
 * wildcard.
 */
export function prefersProblem(header: string | readonly string[] | undefined): boolean {
  return header !== undefined && header !== '*/*' && problems.get(fieldText(header)).wanted
}

function wantsProblem(asked: readonly MediaRange[]): boolean {
  const named = asked.find(
    (range) => range.type === 'application' && range.subtype === 'problem+json',
  )
  return named !== undefined && named.q > 0 && named.q >= (closest(asked, JSON_RANGE)?.q ?? 0)
}
