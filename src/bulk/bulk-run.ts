import type { HttpRequest } from '../http/exchange.js'
import { isHttpError, type HttpError } from '../http/errors.js'
import { isDisconnect } from '../http/failure.js'
import type { Call } from '../repositories/repository.js'
import { telling } from '../runtime/warning.js'
import type { BulkErrorPlace, BulkSettings } from './settings.js'

/** Arguments of repository calls, and the task that makes them. */
export interface BulkCall extends Call {
  /** The call is aborted. Absent: `signal` has to be asked. */
  readonly gone?: boolean | undefined
  /** The task that does the work; absent for a direct answer. */
  readonly place?: BulkErrorPlace
}

/**
 * The call of a request. Its `signal` is created when a repository reads it, because that costs
 * more than ten items.
 */
export class RequestCall implements BulkCall {
  readonly #request: HttpRequest
  readonly owner: string | undefined
  readonly context: unknown

  constructor(
    request: HttpRequest,
    origin: Pick<BulkCall, 'owner' | 'context'> = { context: request.context },
  ) {
    this.#request = request
    this.owner = origin.owner
    this.context = origin.context
  }

  get signal(): AbortSignal { return this.#request.signal }
  get gone(): boolean | undefined { return this.#request.gone }
}

/** One request, or one attempt of a task. */
export interface BulkRun<T> {
  readonly settings: BulkSettings<T>
  readonly call: BulkCall
  /** The call of a transaction, if it differs. */
  readonly transactionCall?: BulkCall
  /** The attempt of the task. Absent for a synchronous request, which nothing repeats. */
  readonly attempt?: { readonly isLast: boolean } | undefined
  /** Passes an error to `onError`, up to ten times in one run. */
  readonly reportError: (error: unknown) => void
}

const MAX_REPORTED_ERRORS = 10

/** Starts a run. */
export function startRun<T>(
  settings: BulkSettings<T>, call: BulkCall, attempt?: BulkRun<T>['attempt'],
): BulkRun<T> {
  let reported = 0
  const reportError = (error: unknown): void => {
    if (isDisconnect(error, call) || reported++ >= MAX_REPORTED_ERRORS) return
    telling(() => settings.onError(error, call.place))
  }
  return { settings, call, attempt, reportError }
}

/**
 * Returns whether an error of the repository says that this call wrote nothing, and that a later
 * one may succeed.
 */
export function isUnavailable(error: unknown): error is HttpError {
  return isHttpError(error) && (error.status === 503 || error.status === 429)
}

/**
 * Returns whether an error of a write ends this run, so that the next attempt of the task repeats
 * the write.
 *
 * @param isExact - a write of unknown outcome may be repeated, because none is made twice
 */
export function isRepeated<T>(
  { attempt }: BulkRun<T>, error: unknown, isExact: boolean,
): boolean {
  if (attempt === undefined) return false
  if (isUnavailable(error)) return true
  const isRefusal = isHttpError(error) && error.status < 500
  return isExact && !attempt.isLast && !isRefusal
}

/** Returns true if the client has disconnected or the task was stopped. */
export function isAborted(call: BulkCall): boolean {
  return call.gone ?? call.signal.aborted
}

/** Throws the reason if the client has disconnected or the task was stopped. */
export function throwIfAborted(call: BulkCall): void {
  if (isAborted(call)) call.signal.throwIfAborted()
}
