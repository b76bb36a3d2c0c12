import type { TaskChange, TaskProgress } from '../record/record.js'
import { failureOf, type Failure } from './failure.js'
import type { Outcome } from './run.js'

/** The members of a record that the end of a run sets. */
export type Ending = Pick<TaskChange, 'state' | 'result' | 'error' | 'errorStatus' | 'errorFields'>

/** Returns how an outcome ends the record. */
export function endingOf(outcome: Outcome): Ending {
  if (outcome.kind === 'completed') return { state: 'completed', result: outcome.result }
  return failed(outcome.kind === 'failed' ? outcome.failure : failureOf('task_interrupted'))
}

/** Returns the change that makes a record final now. */
export function ended(
  ending: Ending, progress: TaskProgress | undefined, retentionMs: number,
): TaskChange {
  const { state, result, error, errorStatus, errorFields } = ending
  const finishedAt = Date.now()
  const expiresAt = finishedAt + retentionMs
  return { state, result, error, errorStatus, errorFields, progress, finishedAt, expiresAt }
}

/** Returns the change to a record for a failure. */
export function failed({ status, fields, ...error }: Failure): Ending {
  return { state: 'failed', error, errorStatus: status, errorFields: fields }
}
