import { cutText } from '../runtime/text.js'
import type { ErrorDetail } from '../wire/errors.js'
import { ERROR_CODES, isHttpError, type HttpError } from './errors.js'
import { isHeaderValue, isToken } from './headers/reader.js'

export interface Failure {
  readonly status: number
  readonly code: string
  /** One sentence, cut to 2048 UTF-16 code units. */
  readonly message: string
  /** At most 16 KiB as JSON. A last entry says how many were left out. */
  readonly details: readonly ErrorDetail[] | undefined
  readonly members: Readonly<Record<string, unknown>> | undefined
  /** Lower-case names. Limited to 8 KiB, because clients read at most 16 KiB of headers. */
  readonly headers: Readonly<Record<string, string>>
  /** True for an error of the client that was thrown on purpose. It is not reported. */
  readonly expected: boolean
}

// Brand of `StoreUnavailableError` in stores/store.ts, which this folder does not import.
const STORE_UNAVAILABLE = Symbol.for('longhaul.StoreUnavailableError')

const NOT_IMPLEMENTED = 501

type AnyObject = Readonly<Record<string, unknown>>

/** Reason phrases of the error statuses, as node:http writes them. */
const PHRASES: Readonly<Record<number, string>> = {
  400: 'Bad Request', 401: 'Unauthorized', 402: 'Payment Required', 403: 'Forbidden',
  404: 'Not Found', 405: 'Method Not Allowed', 406: 'Not Acceptable',
  407: 'Proxy Authentication Required', 408: 'Request Timeout', 409: 'Conflict', 410: 'Gone',
  411: 'Length Required', 412: 'Precondition Failed', 413: 'Payload Too Large',
  414: 'URI Too Long', 415: 'Unsupported Media Type', 416: 'Range Not Satisfiable',
  417: 'Expectation Failed', 421: 'Misdirected Request', 422: 'Unprocessable Entity',
  423: 'Locked', 424: 'Failed Dependency', 425: 'Too Early', 426: 'Upgrade Required',
  428: 'Precondition Required', 429: 'Too Many Requests', 431: 'Request Header Fields Too Large',
  451: 'Unavailable For Legal Reasons', 500: 'Internal Server Error', 501: 'Not Implemented',
  502: 'Bad Gateway', 503: 'Service Unavailable', 504: 'Gateway Timeout',
  505: 'HTTP Version Not Supported', 507: 'Insufficient Storage', 508: 'Loop Detected',
  511: 'Network Authentication Required',
}

const FIRST_CODES = new Map<number, { code: string; message: string }>()
for (const [code, [status, message]] of Object.entries(ERROR_CODES)) {
  if (!FIRST_CODES.has(status)) FIRST_CODES.set(status, { code, message })
}

const BODY_HEADERS = new Set([
  'content-type', 'content-length', 'content-encoding', 'transfer-encoding', 'connection',
])
const LIST_HEADERS = ['vary', 'link', 'ratelimit', 'ratelimit-policy']
const MAX_CODE = 128
const MAX_MESSAGE = 2048
const MAX_DETAILS_TEXT = 16_384
const MAX_HEADERS = 8192
const MASKED: Failure = failure(500, {}, false)

/**
 * Returns the public view of any thrown value. Never throws. An `HttpError` is shown as it is, a
 * `StoreUnavailableError` as 503, an error of your framework (NestJS, http-errors, Boom, Fastify)
 * by its status and, if it is public, its message. Everything else is a masked 500.
 */
export function readFailure(error: unknown): Failure {
  const known = read(error)
  const added = isObject(error) ? additions.get(error) : undefined
  return added === undefined
    ? known
    : { ...known, headers: { ...added, ...known.headers, ...joinLists(added, known.headers) } }
}

/** Adds response headers to a thrown object. Its own headers take precedence; lists are joined. */
export function addFailureHeaders(
  error: unknown, headers: Readonly<Record<string, string | string[]>>,
): void {
  if (!isObject(error)) return
  const before = additions.get(error) ?? {}
  const more = sendable(headers)
  additions.set(error, { ...more, ...before, ...joinLists(more, before) })
}

const additions = new WeakMap<object, Readonly<Record<string, string>>>()

function joinLists(
  added: Readonly<Record<string, string>>, own: Readonly<Record<string, string>>,
): Record<string, string> {
  const both: Record<string, string> = {}
  for (const name of LIST_HEADERS) {
    const [first, second] = [own[name], added[name]]
    if (first !== undefined && second !== undefined && first !== second) {
      both[name] = `${first}, ${second}`
    }
  }
  return both
}

function read(error: unknown): Failure {
  try {
    if (isHttpError(error)) return ofHttpError(error)
    if (!isObject(error)) return MASKED
    return STORE_UNAVAILABLE in error ? ofStore(error['reason'] === 'full') : ofHost(error)
  } catch {
    // A getter or a proxy of the thrown value threw.
    return MASKED
  }
}

function ofHttpError(error: HttpError): Failure {
  const { status, cause } = error
  const isClients = status < 500 || status === NOT_IMPLEMENTED
  return failure(status, error, isClients && cause === undefined)
}

function ofStore(full: boolean): Failure {
  const code = full ? 'store_full' : 'store_unavailable'
  const headers = { 'retry-after': full ? '30' : '5' }
  return failure(503, { code, message: ERROR_CODES[code][1], headers }, false)
}

/** Returns true for an error that was thrown for the client: `HttpError`, or one of NestJS, http-errors or Boom. */
export function isForClient(error: unknown): boolean {
  try {
    if (isHttpError(error)) return true
    return isObject(error)
      && (error['isBoom'] === true || typeof error['expose'] === 'boolean' || isNestException(error))
  } catch {
    // A getter or a proxy of the thrown value threw.
    return false
  }
}

/** `HttpException` of NestJS. */
interface NestException extends AnyObject {
  readonly getStatus: () => unknown
}

function isNestException(error: AnyObject): error is NestException {
  return typeof error['getStatus'] === 'function' && typeof error['getResponse'] === 'function'
}

function ofHost(error: AnyObject): Failure {
  const { isBoom, output, expose, status, statusCode = status, message, headers } = error
  if (isBoom === true && isObject(output)) {
    const payload = isObject(output['payload']) ? output['payload'] : {}
    const { statusCode, headers } = output
    return ofStatus(statusCode, { message: payload['message'], headers })
  }
  if (isNestException(error)) return ofStatus(error.getStatus(), { message })
  if (typeof expose === 'boolean') {
    return ofStatus(statusCode, expose ? { message, headers } : { headers })
  }
  // A `status` alone proves nothing: HTTP clients put that of an upstream response there.
  return typeof error['code'] === 'string' ? ofStatus(error['statusCode'], {}) : MASKED
}

function ofStatus(status: unknown, parts: FailureParts): Failure {
  const isClients = Number(status) < 500
  return failure(status, isClients ? parts : {}, isClients)
}

type FailureParts = {
  readonly [N in 'code' | 'message' | 'details' | 'members' | 'headers']?: unknown
}

function failure(
  status: unknown, { code, message, details, members, headers }: FailureParts, expected: boolean,
): Failure {
  if (!isErrorStatus(status)) return MASKED
  const general = generalError(status)
  return {
    status,
    code: isText(code) ? cutText(code, MAX_CODE) : general.code,
    message: isText(message) ? cutText(message, MAX_MESSAGE) : general.message,
    details: Array.isArray(details) ? limitDetails(details as readonly ErrorDetail[]) : undefined,
    members: isObject(members) ? members : undefined,
    headers: sendable(headers),
    expected,
  }
}

/** Limits the details to 16 KiB, because they are stored and may come from the client's input. */
function limitDetails(details: readonly ErrorDetail[]): readonly ErrorDetail[] | undefined {
  let left = MAX_DETAILS_TEXT
  try {
    const beyond = details.findIndex((detail) => (left -= JSON.stringify(detail).length) < 0)
    if (beyond === -1) return details
    const more = { pointer: '', message: `… and ${details.length - beyond} more` }
    return [...details.slice(0, beyond), more]
  } catch {
    // The details cannot be written as JSON.
    return undefined
  }
}

function sendable(headers: unknown): Record<string, string> {
  const kept: Record<string, string> = {}
  if (!isObject(headers)) return kept
  let left = MAX_HEADERS
  for (const [key, value] of Object.entries(headers)) {
    const name = key.toLowerCase()
    const single = typeof value === 'number' ? String(value) : value
    const text = Array.isArray(value) ? value.join(', ') : single
    const isSendable = typeof text === 'string' && isHeaderValue(text) && isToken(name)
    if (!isSendable || BODY_HEADERS.has(name)) continue
    const size = name.length + text.length
    if (size > left) continue
    left -= size
    kept[name] = text
  }
  return kept
}

function isErrorStatus(status: unknown): status is number {
  return Number.isInteger(status) && (status as number) >= 400 && (status as number) <= 599
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

function isObject(value: unknown): value is AnyObject {
  return typeof value === 'object' && value !== null
}

interface ConnectionState {
  readonly signal: AbortSignal
  readonly gone?: boolean | undefined
}

export function isDisconnect(error: unknown, request: ConnectionState): boolean {
  if (!(request.gone ?? request.signal.aborted)) return false
  const { reason } = request.signal as { readonly reason: unknown }
  // Node's functions wrap the reason, and an upload adds its report to it.
  return error === reason || (error instanceof Error && error.cause === reason)
}

export function reasonPhrase(status: number): string {
  return PHRASES[status] ?? (status < 500 ? 'Client Error' : 'Server Error')
}

/** Returns a code and a message for an error that has only a status. */
export function generalError(status: number): { readonly code: string; readonly message: string } {
  const known = FIRST_CODES.get(status)
  if (known !== undefined) return known
  const phrase = reasonPhrase(status)
  return { code: phrase.toLowerCase().replaceAll(' ', '_'), message: `${phrase}.` }
}
