import { HttpError } from '../../http/errors.js'
import { readFailure } from '../../http/failure.js'
import type { Schema } from '../../schema/schema.js'
import type { Blobs } from '../../stores/blobs.js'
import { REPEATABLE_ATTEMPTS, defineTask, type TaskDefinition, type TaskOptions } from './define.js'
import type { ExternalResource } from './external-resource.js'
import type { Spool, SpooledBody } from './spool.js'

/** Settings of a task whose input is a request body in blobs. Times are in milliseconds. */
export interface SpooledTaskOptions extends Pick<TaskOptions<never, never>,
  'name' | 'backoff' | 'pool' | 'priority' | 'retentionMs' | 'maxPerOwner'
  | 'version'> {
  /** Stores the bodies that wait for their task. */
  readonly blobs: Blobs
  /**
   * Time that the blobs of a task are kept. It must be longer than a task may wait for its run. A
   * task for later, and a failed or cancelled one, renews them: they live as long as it needs them.
   *
   * @default 604_800_000 (7 days)
   */
  readonly blobRetentionMs?: number
  /**
   * Maximum time of one run.
   *
   * @default 3_600_000 (1 hour)
   */
  readonly timeoutMs?: number
  /**
   * Maximum number of runs. A run that fails, for example because the database is unavailable, is
   * followed by another one after a pause (`backoff`). By default these pauses add up to 31 to 63
   * seconds. An error marked by `permanent()`, and an `HttpError` below 500 (except 408, 425 and
   * 429), end the attempts.
   *
   * @default 7
   */
  readonly attempts?: number
}

export const SPOOLED_TASK = {
  name: 0, blobs: 0, blobRetentionMs: 0, timeoutMs: 0, attempts: 0, backoff: 0, pool: 0, priority: 0,
  retentionMs: 0, maxPerOwner: 0, version: 0,
} satisfies Record<keyof SpooledTaskOptions, 0>

const HOUR_MS = 3_600_000

/**
 * Defines a task that reads the spooled body which is its input.
 *
 * @param checkpoint - schema of the position that a later run continues from
 * @param more - what the runs leave beside the body
 *
 * @throws {TypeError} An option is not valid.
 */
export function spooledTask<I extends SpooledBody, R, P = never>(
  spool: Spool, options: SpooledTaskOptions, input: Schema<I, I>,
  run: TaskDefinition<I, R, unknown, I, string, P>['run'],
  checkpoint: NonNullable<TaskOptions<I, R, unknown, I, unknown, string, P>['checkpoint']>,
  more: Pick<ExternalResource<I>, 'remove' | 'bytes'> = {},
): TaskDefinition<I, R, unknown, I, string, P> {
  const {
    blobs, blobRetentionMs, timeoutMs = HOUR_MS, attempts = REPEATABLE_ATTEMPTS, ...settings
  } = options
  return defineTask<I, R, unknown, I, unknown, string, P>({
    ...settings, timeoutMs, attempts, input, checkpoint,
    // `R` is a type parameter here, so the compiler cannot tell that JSON can carry it.
    run: run as TaskOptions<I, R, unknown, I, unknown, string, P>['run'],
    shared: blobs.shared, external: { ...spool.external, ...more },
  })
}

/**
 * Returns the error of a task that failed after part of its work. A failed task has no report, so
 * the message says how much was done. Masked errors are returned unchanged.
 */
export function failedAfter(error: unknown, done: number, report: string): unknown {
  const { status, code, message, headers, expected } = readFailure(error)
  if (!expected || done === 0) return error
  return new HttpError(status, code, { message: `${message} Before that: ${report}`, headers })
}
