import { HttpError } from '../../http/errors.js'
import { readFailure } from '../../http/failure.js'
import type { Schema } from '../../schema/schema.js'
import { defineTask, type TaskDefinition, type TaskOptions } from './define.js'
import type { Spool, SpooledBody } from './spool.js'

/**
 * How a task that reads a spooled body may be set. Times are in milliseconds; default time-out: one
 * hour.
 */
export type SpooledTaskOptions<I, R> = Pick<TaskOptions<I, R>, 'name' | 'timeoutMs' | 'attempts' | 'backoff' | 'retentionMs' | 'maxPerOwner'>

const HOUR_MS = 3_600_000

/**
 * Defines a task that reads the body which is its input. Throws a `TypeError` where an option makes
 * no sense.
 */
export function spooledTask<I extends SpooledBody, R>(
  spool: Spool, options: SpooledTaskOptions<I, R>, input: Schema<I, I>,
  run: TaskDefinition<I, R>['run'],
): TaskDefinition<I, R> {
  const { name, timeoutMs = HOUR_MS, attempts, backoff, retentionMs, maxPerOwner } = options
  return defineTask<I, R>({
    // `R` is a type parameter here, so the compiler cannot tell that JSON can carry it.
    name, input, run: run as TaskOptions<I, R>['run'], timeoutMs, ...spool.task,
    ...attempts !== undefined && { attempts }, ...backoff && { backoff }, ...retentionMs !== undefined && { retentionMs },
    ...maxPerOwner !== undefined && { maxPerOwner },
  })
}

/**
 * What a task failed with behind some of its work: a failed task shows no report, so its message
 * says how far it came, where it shows at all.
 */
export function failedAfter(error: unknown, done: number, report: string): unknown {
  const { status, code, message, headers, expected } = readFailure(error)
  if (!expected || done === 0) return error
  return new HttpError(status, code, { message: `${message} Before that: ${report}`, headers })
}
