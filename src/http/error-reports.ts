import { subscribe, unsubscribe, channel } from 'node:diagnostics_channel'
import { telling } from '../runtime/warning.js'
import type { HttpRequest } from './exchange.js'

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
 * Calls `listener` for every error that this process masks to clients: in requests of all handlers,
 * in policies and in tasks. Call it once, where the process starts. An `onError` of a binding or of
 * `createTasks` is called as well. Process warnings, and the reports to the log of Fastify and to
 * the `error` event of Koa, stop. Refusals such as 503 `queue_full` are counted: the listener gets
 * one for each code and minute. The messages also go through the diagnostics channel
 * `longhaul:error`, as `{ error, request }` or `{ error, task }`.
 *
 * @example
 * reportErrorsTo((error, { request, task }) => {
 *   console.error(error, task?.taskId ?? request?.path) // Sentry.captureException(error)
 * })
 *
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

/** Returns whether `reportErrorsTo` has a listener, or its channel a subscriber. */
export function hasErrorListener(): boolean {
  return reports.hasSubscribers
}

/** Reports an error to all listeners. Returns whether there are any. */
export function publishError(report: ErrorReport): boolean {
  if (!reports.hasSubscribers) return false
  reports.publish(report)
  return true
}
