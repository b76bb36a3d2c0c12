import { isDisconnect } from '../http/failure.js'
import { aboutTask, telling, warn } from '../runtime/warning.js'

/** The attempt of a task in which a write or the schema failed. */
export interface RecordErrorPlace {
  readonly taskId: string
  /** Name of the task's definition. */
  readonly name: string
  readonly attempt: number
}

/** Receives errors of one request or attempt. */
export type OnRecordError = (error: unknown, place?: RecordErrorPlace) => unknown

interface ReportedCall {
  readonly gone?: boolean | undefined
  readonly signal: AbortSignal
  readonly place?: RecordErrorPlace | undefined
}

const MAX_REPORTED_ERRORS = 10

/** Returns a function that passes errors to `onError`, up to ten times in one run. */
export function errorReports(onError: OnRecordError, call: ReportedCall): (error: unknown) => void {
  let reported = 0
  return (error) => {
    if (isDisconnect(error, call) || reported++ >= MAX_REPORTED_ERRORS) return
    telling(() => onError(error, call.place))
  }
}

/** The default of `onError`. */
export function warnOfError(error: unknown, place?: RecordErrorPlace): void {
  warn(error, place && aboutTask(place))
}
