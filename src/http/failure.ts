import { cutText } from '../runtime/cut-text.js'
import { ERROR_CODES, isHttpError, type ErrorDetail, type HttpError } from './errors.js'
import { isFieldValue } from './fields/fields.js'
import { isToken } from './fields/reader.js'
import { generalError } from './reasons.js'

/** What a client may know of something that was thrown. */
export interface Failure {
  /** From 400 to 599. */
  readonly status: number
  readonly code: string
  /** One sentence; cut above 2048 UTF-16 units. */
  readonly message: string
  /** As many as take 16 KiB as JSON, and one that says how many more there are. */
  readonly details: readonly ErrorDetail[] | undefined
  /** Further members of the error body. */
  readonly members: Readonly<Record<string, unknown>> | undefined
  /**
   * Lower-case names; safe to send. Fields beyond 8 KiB are left out, because clients read no more
   * than 16 KiB of them.
   */
  readonly headers: Readonly<Record<string, string>>
  /** The client's own doing, thrown on purpose: nothing that the host has to look at. */
  readonly expected: boolean
}

// The brand of stores/store.ts, which this room does not import.
const STORE_UNAVAILABLE = Symbol.for('longhaul.StoreUnavailableError')

/** The one 5xx that a client brings about as it likes: by a method that nobody knows. */
const NOT_IMPLEMENTED = 501

type Fields = Readonly<Record<string, unknown>>

/** The answer says how long its body is, and what it is. */
const OWN_HEADERS = new Set(['content-type', 'content-length', 'content-encoding', 'transfer-encoding', 'connection'])
const LISTS = ['vary', 'link', 'ratelimit', 'ratelimit-policy']
const MAX_CODE = 128
const MAX_MESSAGE = 2048
const MAX_DETAILS_TEXT = 16_384
const MAX_HEADERS = 8192
const MASKED: Failure = failure(500, { expected: false })

/**
 * Tells what may be told of any thrown value, however broken: `HttpError` as it is;
 * `StoreUnavailableError` as 503; errors that the host's framework throws (http-errors, Boom,
 * Fastify) by status, with their message only where it is a 4xx that says it may be exposed;
 * everything else as a masked 500. Never throws.
 */
export function readFailure(error: unknown): Failure {
  const told = read(error)
  const added = isFields(error) ? additions.get(error) : undefined
  return added === undefined ? told : { ...told, headers: { ...added, ...told.headers, ...joined(added, told.headers) } }
}

/**
 * Adds response headers to those of a thrown value, for policies that an error passes on its way
 * out: which versions there are, how much of a limit is left. What the error says itself goes
 * first; `vary`, `link` and the rate limit fields are joined. Where the value can't carry any (a
 * thrown text), nothing happens.
 */
export function addFailureHeaders(error: unknown, headers: Readonly<Record<string, string | string[]>>): void {
  if (!isFields(error)) return
  const before = additions.get(error) ?? {}
  const more = sendable(headers)
  additions.set(error, { ...more, ...before, ...joined(more, before) })
}

/** Beside the thrown values, because they may be frozen, foreign, or the host's own. */
const additions = new WeakMap<object, Readonly<Record<string, string>>>()

function joined(added: Readonly<Record<string, string>>, own: Readonly<Record<string, string>>): Record<string, string> {
  const both: Record<string, string> = {}
  for (const name of LISTS) {
    const [first, second] = [own[name], added[name]]
    if (first !== undefined && second !== undefined && first !== second) both[name] = `${first}, ${second}`
  }
  return both
}

function read(error: unknown): Failure {
  try {
    if (isHttpError(error)) return ofHttpError(error)
    if (!isFields(error)) return MASKED
    return STORE_UNAVAILABLE in error ? ofStore(error['reason'] === 'full') : ofHost(error)
  } catch {
    // A getter or a proxy of the thrown value threw.
    return MASKED
  }
}

function ofHttpError(error: HttpError): Failure {
  const { status, code, message, details, members, headers, cause } = error
  if (!isErrorStatus(status)) return MASKED
  return failure(status, { code, message, details, members, headers, expected: (status < 500 || status === NOT_IMPLEMENTED) && cause === undefined })
}

function ofStore(full: boolean): Failure {
  const code = full ? 'store_full' : 'store_unavailable'
  const headers = { 'retry-after': full ? '30' : '5' }
  return failure(503, { code, message: ERROR_CODES[code][1], headers, expected: false })
}

function ofHost(error: Fields): Failure {
  const { isBoom, output, expose, statusCode, code } = error
  if (isBoom === true && isFields(output)) {
    const payload = isFields(output['payload']) ? output['payload'] : {}
    return ofStatus(output['statusCode'], payload['message'], output['headers'])
  }
  if (typeof expose === 'boolean') {
    return ofStatus(statusCode ?? error['status'], expose ? error['message'] : undefined, error['headers'])
  }
  // A bare `status` is no sign: clients of other services put the status of an upstream answer
  // there.
  return typeof code === 'string' ? ofStatus(statusCode, undefined, undefined) : MASKED
}

function ofStatus(status: unknown, message: unknown, headers: unknown): Failure {
  if (!isErrorStatus(status)) return MASKED
  return failure(status, status < 500 ? { message, headers, expected: true } : { expected: false })
}

interface Told {
  readonly code?: unknown
  readonly message?: unknown
  readonly details?: readonly ErrorDetail[] | undefined
  readonly members?: unknown
  readonly headers?: unknown
  readonly expected: boolean
}

function failure(status: number, { code, message, details, members, headers, expected }: Told): Failure {
  const general = generalError(status)
  return {
    status,
    code: isText(code) ? cutText(code, MAX_CODE) : general.code,
    message: isText(message) ? cutText(message, MAX_MESSAGE) : general.message,
    details: Array.isArray(details) ? fewDetails(details as readonly ErrorDetail[]) : undefined,
    members: isFields(members) ? members : undefined,
    headers: sendable(headers),
    expected,
  }
}

/**
 * A failure is kept in records, reports and answers for retries, and its thrower may have taken its
 * words from the client's input.
 */
function fewDetails(details: readonly ErrorDetail[]): readonly ErrorDetail[] | undefined {
  let left = MAX_DETAILS_TEXT
  try {
    const beyond = details.findIndex((detail) => (left -= JSON.stringify(detail).length) < 0)
    return beyond === -1 ? details : [...details.slice(0, beyond), { pointer: '', message: `… and ${details.length - beyond} more` }]
  } catch {
    // Something of the host's own making that JSON can't write.
    return undefined
  }
}

/** Headers without those that would break the answer: of its own body, or not valid in HTTP. */
function sendable(headers: unknown): Record<string, string> {
  const kept: Record<string, string> = {}
  if (!isFields(headers)) return kept
  let left = MAX_HEADERS
  for (const [key, value] of Object.entries(headers)) {
    const name = key.toLowerCase()
    const text = Array.isArray(value) ? value.join(', ') : typeof value === 'number' ? String(value) : value
    if (!isToken(name) || typeof text !== 'string' || !isFieldValue(text) || OWN_HEADERS.has(name)) continue
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

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null
}

/** The parts of a request that show whether its client has disconnected. */
interface ConnectionState {
  readonly signal: AbortSignal
  /** Shows whether `signal` is aborted without creating it. */
  readonly gone?: boolean | undefined
}

/** Returns whether `error` only means that the client of `request` has disconnected. */
export function isDisconnect(error: unknown, request: ConnectionState): boolean {
  if (!(request.gone ?? request.signal.aborted)) return false
  const { reason } = request.signal as { readonly reason: unknown }
  // Node's functions wrap the reason, and an upload adds its report to it.
  return error === reason || (error instanceof Error && error.cause === reason)
}
