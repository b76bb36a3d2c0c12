import { checkNames } from '../runtime/option-names.js'
import type { ErrorDetail } from '../wire/errors.js'

/**
 * All error codes of longhaul, with status and message. Codes are stable; messages may change.
 * docs/errors.md explains each code.
 */
export const ERROR_CODES = {
  bad_request: [400, 'The request is not valid.'],
  malformed_json: [400, 'The body is not valid JSON.'],
  csv_header_invalid: [400, 'The header row is not valid.'],
  not_ndjson: [400, 'The body is not NDJSON: one JSON object on each line.'],
  unsafe_key: [400, 'The body has a key that is not allowed, such as __proto__.'],
  nested_too_deep: [400, 'The body is nested too deeply.'],
  missing_body: [400, 'The request needs a body.'],
  malformed_coding: [400, 'The body is not valid in its content coding.'],
  incomplete_body: [400, 'The body ended before it was complete.'],
  digest_mismatch: [400, 'The content does not match its digest.'],
  invalid_input: [400, 'The input is not valid.'],
  empty_batch: [400, 'The batch has no items.'],
  inexact_value: [400, 'A value cannot be stored exactly as it was sent.'],
  invalid_header: [400, 'A header is not valid.'],
  invalid_query: [400, 'A query parameter is not valid.'],
  invalid_cursor: [400, 'The cursor is malformed, or belongs to a list with other options.'],
  invalid_path: [400, 'The path is not valid.'],
  version_required: [400, 'The request must name a version.'],
  version_invalid: [400, 'The version is malformed: write 1, 1.2 or 1.2.3.'],
  version_ambiguous: [400, 'The request names more than one version.'],
  version_unsupported: [400, 'This version is not served.'],
  invalid_callback_url: [400, 'The callback URL is not an absolute http or https URL.'],
  callback_url_forbidden: [400, 'The callback URL has credentials, or its host is not public.'],
  callback_needs_async: [400, 'A callback URL requires "Prefer: respond-async".'],
  invalid_start_at: [400, 'The start must be a time (2026-12-24T18:00:00Z) or a duration (PT90M).'],
  idempotency_needs_async: [400, 'An Idempotency-Key requires "Prefer: respond-async" here.'],
  idempotency_not_supported: [400, 'This resource takes no Idempotency-Key. Nothing was done.'],
  invalid_idempotency_key: [400, 'The Idempotency-Key header is not valid.'],
  upload_length_inconsistent: [400, 'The lengths that were announced for this upload differ.'],
  upload_append_too_small: [400, 'This part of the upload is smaller than the server accepts.'],
  unauthorized: [401, 'Valid credentials are required.'],
  forbidden: [403, 'You are not allowed to do this.'],
  cross_site: [403, 'A page of another site has sent this request.'],
  not_found: [404, 'There is nothing here.'],
  file_not_found: [404, 'There is no such file.'],
  task_not_found: [404, 'No such task.'],
  job_not_found: [404, 'No such job.'],
  upload_not_found: [404, 'No such upload.'],
  method_not_allowed: [405, 'This method is not allowed here.'],
  not_acceptable: [406, 'The server has none of the media types that Accept allows.'],
  request_timeout: [408, 'The request took too long to arrive.'],
  conflict: [409, 'The request conflicts with the current state.'],
  duplicate_item: [409, 'An earlier item of the batch has the same key.'],
  task_not_final: [409, 'The task has not ended yet.'],
  already_answered: [409, 'The question was answered already, with another value.'],
  input_timed_out: [409, 'Nobody has answered the question in time.'],
  task_already_final: [409, 'The task has already ended.'],
  task_already_completed: [409, 'The task is completed, so it cannot be retried.'],
  no_callback: [409, 'The task has no callback.'],
  callback_pending: [409, 'The callback of the task is being sent already.'],
  attempt_replaced: [409, 'Another run of this task has begun, or the task has ended.'],
  task_cancelled: [409, 'The task was cancelled.'],
  idempotent_request_running: [409, 'A request with this Idempotency-Key is still running.'],
  upload_offset_mismatch: [409, 'The upload continues at the Upload-Offset of this response.'],
  upload_superseded: [409, 'A newer request for this upload has replaced this one.'],
  gone: [410, 'This is no longer here.'],
  version_gone: [410, 'This version is no longer served.'],
  precondition_failed: [412, 'A precondition does not hold.'],
  body_too_large: [413, 'The body is too large.'],
  unsupported_media_type: [415, 'The media type of the body is not supported.'],
  unsupported_content_coding: [415, 'The content coding of the body is not supported.'],
  range_not_satisfiable: [416, 'None of the requested ranges is within the content.'],
  expectation_failed: [417, 'The expectation cannot be met.'],
  unprocessable: [422, 'The request is well formed but cannot be processed.'],
  too_many_bad_lines: [422, 'Too many lines are not valid.'],
  batch_failed: [422, 'None of the items could be applied.'],
  start_at_out_of_range: [422, 'The start is in the past, or more than a year ahead.'],
  unknown_input: [422, 'The task has not asked this.'],
  unknown_task: [422, 'There is no task of this name.'],
  idempotency_key_reused: [422, 'This Idempotency-Key was used with another request.'],
  precondition_required: [428, 'The request must be conditional: send If-Match or If-None-Match.'],
  not_applied: [424, 'Not applied, because the batch was stopped.'],
  too_many_bytes: [429, 'Uploads and tasks that have not ended have too many bytes: try again later.'],
  too_many_requests: [429, 'Too many requests.'],
  too_many_tasks: [429, 'Too many unfinished tasks: wait until one has ended, or cancel one.'],
  too_many_uploads: [429, 'Too many unfinished uploads: complete one, or delete one.'],
  header_fields_too_large: [431, 'The headers are too large.'],
  internal_error: [500, 'Something went wrong.'],
  write_outcome_unknown: [500, 'Something went wrong. It is unknown whether this was written.'],
  task_failed: [500, 'The task failed.'],
  result_too_large: [500, 'The result is too large to be stored.'],
  result_files_too_large: [500, 'The files of the result are too large to be stored.'],
  task_lost: [500, 'The work of this task was lost before it ended.'],
  checkpoint_dropped: [500, 'The checkpoint of the task was dropped, and the task starts over.'],
  task_interrupted: [500, 'The process that ran this task stopped or crashed.'],
  not_implemented: [501, 'The server does not implement this method.'],
  bad_gateway: [502, 'An upstream server sent an invalid response.'],
  service_unavailable: [503, 'The service is not available now.'],
  store_unavailable: [503, 'The service is not available now.'],
  store_full: [503, 'The service has no space for more data now.'],
  queue_full: [503, 'Too much work is waiting already.'],
  shutting_down: [503, 'The server is shutting down.'],
  overloaded: [503, 'The server has too much to do now.'],
  run_timeout: [503, 'The work took too long.'],
  sync_timeout: [503, 'The work took too long for a synchronous response.'],
  gateway_timeout: [504, 'An upstream server did not respond in time.'],
  task_timeout: [504, 'The task exceeded its time limit.'],
} as const satisfies Record<string, readonly [number, string]>

/** An error code of longhaul. */
export type ErrorCode = keyof typeof ERROR_CODES

/** Optional parts of an `HttpError`. */
export interface HttpErrorOptions {
  /** Message for the client. Must not reveal internals. Default: the message of the code. */
  readonly message?: string
  /** Each problem of the request, with its place. */
  readonly details?: readonly ErrorDetail[]
  /** Further properties of the error body, such as a report of items that were written. */
  readonly members?: Readonly<Record<string, unknown>>
  /** Response headers, with lower-case names. */
  readonly headers?: Readonly<Record<string, string>>
  /** The underlying error. Passed to `onError`, never to the client. */
  readonly cause?: unknown
}

const KNOWN = {
  message: 0, details: 0, members: 0, headers: 0, cause: 0,
} satisfies Record<keyof HttpErrorOptions, 0>
const BRAND = Symbol.for('longhaul.HttpError')

/**
 * A failure that the client may see. Its status, code, message and details are sent as they are.
 * An error below 500 of NestJS, http-errors or Boom is sent with its status and message. Any other
 * thrown value is masked as `internal_error`. Throw it with your own codes. Test for it
 * with `isHttpError`, because `instanceof` fails across copies of this package.
 * @example
 * throw new HttpError(409, 'seat_taken', { message: 'The seat is taken.' })
 * @throws {RangeError} The status is not a whole number from 400 to 599.
 * @throws {TypeError} An option is unknown.
 */
export class HttpError extends Error {
  override readonly name = 'HttpError'
  readonly [BRAND] = true
  readonly status: number
  readonly code: string
  readonly details: readonly ErrorDetail[] | undefined
  readonly members: Readonly<Record<string, unknown>> | undefined
  readonly headers: Readonly<Record<string, string>>
  constructor(status: number, code: string, options: HttpErrorOptions = {}) {
    const { message = code, details, members, headers = {}, cause } = options
    super(message, cause === undefined ? undefined : { cause })
    if (!Number.isInteger(status) || status < 400 || status > 599) {
      throw new RangeError(
        `HttpError: status must be a whole number from 400 to 599, not ${String(status)}`,
      )
    }
    checkNames('HttpError', options, KNOWN)
    this.status = status
    this.code = code
    this.details = details
    this.members = members
    this.headers = headers
  }
}

/** Returns true if `error` is an `HttpError` of any copy of this package. */
export function isHttpError(error: unknown): error is HttpError {
  return typeof error === 'object' && error !== null && BRAND in error
}

/** Returns true if another run of the task has replaced the run that called a write. */
export function isReplaced(error: unknown): boolean {
  return isHttpError(error) && error.code === 'attempt_replaced'
}

/**
 * Creates an `HttpError` with the status and message of one of longhaul's codes.
 * @example
 * throw httpError('conflict', {
 *   details: [{ pointer: '/email', message: 'The address is in use.' }],
 * })
 * @throws {TypeError} The code is not in `ERROR_CODES`, or an option is unknown.
 */
export function httpError(code: ErrorCode, options: HttpErrorOptions = {}): HttpError {
  const known = ERROR_CODES[code] as (typeof ERROR_CODES)[ErrorCode] | undefined
  if (!known) {
    throw new TypeError(
      `httpError: there is no code ${String(code)}; `
      + 'for a code of your own, write new HttpError(status, code)',
    )
  }
  const [status, message] = known
  return new HttpError(status, code, { ...options, message: options.message ?? message })
}

/**
 * Creates the 406 `not_acceptable` of a request whose `Accept` allows none of `offers`, which the
 * message lists.
 *
 * @param vary - value of the `Vary` header
 * @example
 * const OFFERS = ['application/json', 'text/csv']
 * const type = negotiate(request.headers.accept, OFFERS)
 * if (type === undefined) throw notAcceptable(OFFERS)
 */
export function notAcceptable(offers: readonly string[], vary = 'Accept'): HttpError {
  return httpError('not_acceptable', {
    message: `Accept allows none of the available types: ${offers.join(', ')}.`, headers: { vary },
  })
}

/** Creates the 413 of a body that is larger than `maxBytes`. */
export function bodyTooLarge(maxBytes: number): HttpError {
  return httpError('body_too_large', { message: `The body is larger than ${maxBytes} bytes.` })
}

/** Creates the 415 of a body with a content coding where none is decoded. */
export function mustBeIdentity(): HttpError {
  return httpError('unsupported_content_coding', { headers: { 'accept-encoding': 'identity' } })
}

const LATE = new Set([
  'ETIMEDOUT', 'ESOCKETTIMEDOUT', 'UND_ERR_CONNECT_TIMEOUT', 'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
])
const UPSTREAM = {
  message: 0, details: 0, members: 0, headers: 0,
} satisfies Record<keyof Omit<HttpErrorOptions, 'cause'>, 0>
const DEEP = 5

/**
 * Converts the failure of a call to another server into an error for the client. A timeout becomes
 * 504 `gateway_timeout`, any other failure 502 `bad_gateway` (RFC 9110 sections 15.6.3 and 15.6.5).
 * Keeps the original error as `cause`, for `onError` only. Returns an `HttpError` unchanged.
 *
 * Works in handlers, repositories and tasks. A failed task shows the code on its status resource.
 * @example
 * const rates = await fetch(url, { signal: AbortSignal.timeout(2000) })
 *   .catch((error) => { throw upstreamError(error) })
 * if (!rates.ok) throw upstreamError(new Error(`rates: ${rates.status}`))
 * @throws {TypeError} An option is unknown.
 */
export function upstreamError(
  error: unknown, options: Omit<HttpErrorOptions, 'cause'> = {},
): HttpError {
  checkNames('upstreamError', options, UPSTREAM)
  return isHttpError(error)
    ? error
    : httpError(isLate(error) ? 'gateway_timeout' : 'bad_gateway', {
      ...options,
      cause: error ?? 'no error was given',
    })
}

function isLate(error: unknown): boolean {
  let each = error
  for (let depth = 0; depth < DEEP && typeof each === 'object' && each !== null; depth++) {
    const { name, code, cause } = each as Readonly<Record<string, unknown>>
    if (name === 'TimeoutError' || (typeof code === 'string' && LATE.has(code))) return true
    each = cause
  }
  return false
}
