import { isPending, type MaybePromise } from '../runtime/maybe-promise.js'
import { checkHandler, describe, type Handler, type HttpRequest, type HttpResponse } from './exchange.js'
import { isDisconnect, readFailure } from './failure.js'
import { func, readOptions, type OptionTable } from '../runtime/options.js'
import { errorResponse } from './respond.js'
import { getRequestId } from './request.js'
import { telling, warn } from '../runtime/warning.js'
import { subscribe, unsubscribe, channel } from 'node:diagnostics_channel'
import { HttpError, isHttpError } from './errors.js'

/**
 * Receives every error that is not the client's: unknown errors, 5xx except 501, a store that
 * failed, and `HttpError`s with a `cause`. It does not receive the stored failure of a task, nor
 * what stopped because the client has disconnected. Of requests rejected because of a limit, such
 * as 503 `queue_full`, it receives one for each code and minute. What it throws becomes a process
 * warning.
 */
export type OnError = (error: unknown, request: HttpRequest) => unknown

/** Options of `guard`. */
export interface GuardOptions {
  /**
   * Receives errors that are masked to clients. Default: a process warning named `LonghaulError`,
   * unless `reportErrorsTo` has a listener.
   */
  readonly onError?: OnError | undefined
}

const OPTIONS = { onError: func() } satisfies OptionTable<GuardOptions>

type Result = MaybePromise<HttpResponse | undefined>

/**
 * Wraps a handler in the error boundary, which belongs outside all policies. For an error, a
 * rejection or a value that is not a response, the client gets `errorResponse`. The result never
 * throws or rejects, and is synchronous if `handler` is.
 * @example
 * const safe = guard(handler, { onError: (error) => logger.error(error) })
 * @throws {TypeError} The handler is not a function, or an option is not valid or unknown.
 */
export function guard<C>(handler: Handler<C>, options: GuardOptions = {}): Handler<C> {
  const { onError } = readOptions('guard', options, OPTIONS)
  const guarded = boundary(handler, onError)
  return handler.operations ? describe(guarded, handler.operations) : guarded
}

/**
 * Wraps a handler for a binding, which makes the requests itself, so that nothing has to check them. The
 * result is no async function, which would cost each late response two more microtasks.
 * @throws {TypeError} The handler is not a function.
 */
export function boundary<C>(
  handler: Handler<C>, onError: OnError | undefined,
): (request: HttpRequest<C>) => Result {
  checkHandler(handler)
  return (request) => {
    try {
      const result: unknown = handler(request)
      if (!isPending(result)) return checked(result, request, onError)
      return Promise.resolve(result).then(
        (late) => checked(late, request, onError),
        (error: unknown) => failureResponse(error, request, onError),
      )
    } catch (error) {
      return failureResponse(error, request, onError)
    }
  }
}

/** Reports an error, and returns the response to its request. */
export function failureResponse(
  error: unknown, request: HttpRequest, onError: OnError | undefined,
): HttpResponse {
  report(error, request, onError)
  return errorResponse(error, request)
}

/** Returns the response, or that to its fault. Never throws, even if a property of it does. */
function checked(
  result: unknown, request: HttpRequest, onError: OnError | undefined,
): HttpResponse | undefined {
  try {
    const isResponse = typeof (result as HttpResponse | null)?.status === 'number'
    if (result === undefined || isResponse) return result as HttpResponse | undefined
    throw new TypeError(NO_RESPONSE)
  } catch (error) {
    return failureResponse(error, request, onError)
  }
}

const NO_RESPONSE = 'A handler must return { status, headers, body? }, or undefined to decline'

function report(error: unknown, request: HttpRequest, onError: OnError | undefined): void {
  if (readFailure(error).expected || isDisconnect(error, request)) return
  if (hasErrorListener()) {
    const due = dueReport(reportErrorsTo, error)
    if (due) publishError({ ...due, request })
  } else if (onError === undefined) {
    const due = dueReport(warn, error)
    if (due) warn(due.error, aboutRequest(request))
  }
  if (onError !== undefined) {
    const due = dueReport(onError, error)
    if (due) telling(() => onError(due.error, request))
  }
}

/** Names a request in a warning. Leaves out the query, because it may contain secrets. */
function aboutRequest(request: HttpRequest): string {
  const id = getRequestId(request)
  return `${request.method} ${request.path}${id === undefined ? '' : ` (request ${id})`}`
}

/** Origin of an error: a request, or a run of a task. */
export interface ErrorPlace {
  readonly request?: HttpRequest
  readonly task?: { readonly taskId: string, readonly name: string, readonly attempt: number }
}

interface ErrorReport extends ErrorPlace {
  readonly error: unknown
}

const NAME = 'longhaul:error'
const reports = channel(NAME)

/**
 * Calls `listener` for every error that this process masks to clients, in requests, policies and
 * tasks, beside any `onError`. Call it once, where the process starts. Process warnings, and the
 * reports to the log of Fastify and the `error` event of Koa, stop. Of requests rejected because of
 * a limit, it gets one error for each code and minute. The messages also go through the diagnostics
 * channel `longhaul:error`, as `{ error, request }` or `{ error, task }`.
 * @example
 * reportErrorsTo((error, { request, task }) => {
 *   console.error(error, task?.taskId ?? request?.path) // Sentry.captureException(error)
 * })
 * @returns a function that removes the listener
 * @throws {TypeError} `listener` is not a function.
 */
export function reportErrorsTo(
  listener: (error: unknown, place: ErrorPlace) => unknown,
): () => void {
  if (typeof listener !== 'function') {
    throw new TypeError('reportErrorsTo: pass a function of the error')
  }
  const onReport = (message: unknown): void => {
    const { error, ...place } = message as ErrorReport
    telling(() => listener(error, place))
  }
  subscribe(NAME, onReport)
  return () => { unsubscribe(NAME, onReport) }
}

export function hasErrorListener(): boolean {
  return reports.hasSubscribers
}

export function publishError(report: ErrorReport): boolean {
  if (!reports.hasSubscribers) return false
  reports.publish(report)
  return true
}

const QUIET_MS = 60_000

/** Codes of requests that the server rejects because of its limits. Any client can cause them. */
const REFUSALS = new Set([
  'overloaded', 'queue_full', 'run_timeout', 'service_unavailable', 'shutting_down', 'store_full',
  'sync_timeout',
])

interface LastReport {
  at: number
  more: number
}

const lastReports = new WeakMap<object, Map<string, LastReport>>()

/**
 * Returns the error that a listener gets, or `undefined` if it gets none. A rejection because of a
 * limit of the server is reported once for each code and minute, with the number of further
 * rejections.
 */
export function dueReport(
  listener: object, error: unknown,
): { readonly error: unknown } | undefined {
  const { status, code } = readFailure(error)
  if (!REFUSALS.has(code) || !isRefusal(error, code)) return { error }
  let codes = lastReports.get(listener)
  if (!codes) lastReports.set(listener, codes = new Map<string, LastReport>())
  const now = performance.now()
  const last = codes.get(code)
  if (last !== undefined && now - last.at < QUIET_MS) {
    last.more++
    return undefined
  }
  codes.set(code, { at: now, more: 0 })
  const { message } = error as Error
  const text = last === undefined || last.more === 0 ? message
    : `${message} (${last.more} more in the ${Math.round((now - last.at) / 1000)} s before)`
  const line = new HttpError(status, code, { message: text })
  line.stack = `HttpError: ${status} ${code}: ${text}`
  return { error: line }
}

function isRefusal(error: unknown, code: string): boolean {
  return code === 'store_full' || (isHttpError(error) && error.cause === undefined)
}
