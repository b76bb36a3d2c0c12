import type { HttpRequest } from '../http/exchange.js'
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
  /** Passes an error to `onError`, up to ten times in one run. */
  readonly reportError: (error: unknown) => void
}

const MAX_REPORTED_ERRORS = 10

/** Starts a run. */
export function startRun<T>(settings: BulkSettings<T>, call: BulkCall): BulkRun<T> {
  let reported = 0
  const reportError = (error: unknown): void => {
    if (isDisconnect(error, call) || reported++ >= MAX_REPORTED_ERRORS) return
    telling(() => settings.onError(error, call.place))
  }
  return { settings, call, reportError }
}

/** Returns true if the client has disconnected or the task was stopped. */
export function isAborted(call: BulkCall): boolean {
  return call.gone ?? call.signal.aborted
}

/** Throws the reason if the client has disconnected or the task was stopped. */
export function throwIfAborted(call: BulkCall): void {
  if (isAborted(call)) call.signal.throwIfAborted()
}
