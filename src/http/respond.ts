import type { HttpRequest, HttpResponse, ResponseHeaders } from './exchange.js'
import { readFailure, type Failure } from './failure.js'
import { closest, parseAccept, type MediaRange } from './fields/accept.js'
import { addVary } from './fields/fields.js'
import { fieldText } from './fields/reader.js'
import { reasonPhrase } from './reasons.js'
import { Memo } from '../runtime/memo.js'

const JSON_TYPE = 'application/json'

/**
 * An answer with `value` as JSON. `headers` (lower-case names) are copied, and may name another
 * `content-type`.
 */
export function json(status: number, value: unknown, headers?: Readonly<ResponseHeaders>): HttpResponse {
  // JSON has no undefined; what JSON.stringify gives for it, or for a function, is no text.
  return jsonText(status, JSON.stringify(value) ?? 'null', headers)
}

/** Like `json`, for a text that is JSON already. */
export function jsonText(status: number, text: string, headers?: Readonly<ResponseHeaders>): HttpResponse {
  return {
    status,
    headers: headers === undefined ? { 'content-type': JSON_TYPE } : { 'content-type': JSON_TYPE, ...headers },
    body: text,
  }
}

/** An answer without a body, such as 204. */
export function empty(status: number, headers?: Readonly<ResponseHeaders>): HttpResponse {
  return { status, headers: { ...headers } }
}

/**
 * An answer whose body comes bit by bit; `headers` should name its `content-type`. When the body
 * fails midway, the binding breaks the connection, so that no client takes it for whole.
 */
export function stream(
  status: number, body: AsyncIterable<Uint8Array | string>, headers?: Readonly<ResponseHeaders>,
): HttpResponse {
  return { status, headers: { ...headers }, body }
}

/**
 * The answer to anything that was thrown: `{ error: sentence, code, details? }`, or the same as a
 * problem (RFC 9457) with `status`, `title` and `detail` beside these members, for a client that
 * names `application/problem+json`. What the client may not know is masked, see `readFailure`.
 * Never throws, whatever was thrown.
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
    // Details or members of the host's own making that JSON can't write.
    return JSON.stringify(plain)
  }
}

const JSON_RANGE = { type: JSON_TYPE, params: new Map<string, string>() }
const problems = new Memo((text: string) => ({ wanted: wantsProblem(parseAccept(text)) }))

/**
 * Whether errors go out as `application/problem+json`: only where the client names that very type
 * with a `q` above 0 and not below what the header gives `application/json`, by name or by a
 * wildcard.
 */
export function prefersProblem(header: string | readonly string[] | undefined): boolean {
  return header !== undefined && header !== '*/*' && problems.get(fieldText(header)).wanted
}

function wantsProblem(asked: readonly MediaRange[]): boolean {
  const named = asked.find((range) => range.type === 'application' && range.subtype === 'problem+json')
  return named !== undefined && named.q > 0 && named.q >= (closest(asked, JSON_RANGE)?.q ?? 0)
}
