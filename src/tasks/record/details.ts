import type { StoredTask } from '../../engine/task.js'
import { ERROR_CODES } from '../../http/errors.js'
import type { FailedWork } from '../definition/failed-work.js'
import type { Inputs } from './inputs.js'
import type { RecordFiles } from './outside.js'
import type { LogLine } from './run-log.js'
import type { StoredFailures } from './stored-failure.js'
import type { TraceHeaders } from '../definition/tracing.js'
import { cutText } from '../../runtime/text.js'
import type { PartList } from '../../stores/parts.js'
import type {
  CallbackFault, PastAttempt, TaskCallback, TaskFailure, TaskProgress,
} from '../../wire/task.js'

/**
 * Returns whether `id` can be a task's id. An id stands in paths and keys unescaped.
 *
 * @throws {TypeError} `id` is not a string, such as the id of a task that was not found.
 */
export function isTaskId(id: string): boolean {
  if (typeof id !== 'string') throw new TypeError(`the id of a task must be a string, not ${String(id)}`)
  return id.length <= 128 && /^[A-Za-z0-9_-][A-Za-z0-9._-]*$/.test(id)
}

/** The tasks that a call sees: those of one owner, as it is stored, those without owner, or all. */
export type Scope = 'all' | { readonly owner: string | undefined }

export function isIn(of: Scope, task: { readonly owner: string | undefined }): boolean {
  return of === 'all' || task.owner === of.owner
}

/** Headers of a stored error, with lower-case names. */
export type ErrorHeaders = Readonly<Record<string, string>>

export interface StoredTaskFailure extends TaskFailure {
  readonly status: number
  readonly headers?: ErrorHeaders | undefined
}

/** Properties of a stored task that the engine does not read. All of them survive JSON. */
export type Details = RecordFiles & {
  /** New for each retry. It also gives the next callback another message id. */
  readonly round?: string | undefined
  /** Digest of the request that has the idempotency key. */
  readonly fingerprint?: string | undefined
  /** `true` if the first request with the key asked for a synchronous response. */
  readonly isDirect?: true | undefined
  /** `true` if synchronous requests may have the key, too: they claim it in the store. */
  readonly isKeyShared?: true | undefined
  readonly isTransactional?: true | undefined
  readonly context?: unknown
  readonly trace?: TraceHeaders | undefined
  readonly external?: string | undefined
  /** Names after the first one, if `external.of` has returned several. */
  readonly moreExternal?: readonly string[] | undefined
  /** Parts that the runs have written beside the external resource, up to the last checkpoint. */
  readonly parts?: PartList | undefined
  /** Attempts that have failed since the submission or the last retry. */
  readonly failures?: number | undefined
  /** Time since which no process has been able to run the task, in milliseconds since 1970. */
  readonly returnedSince?: number | undefined
  readonly retryKey?: string | undefined
  readonly attempts?: readonly PastAttempt[] | undefined
  readonly progress?: TaskProgress | undefined
  readonly error?: TaskFailure | undefined
  readonly errorStatus?: number | undefined
  readonly errorFields?: ErrorHeaders | undefined
  /** The real errors of the last runs, until the task is completed. Clients never see them. */
  readonly failure?: StoredFailures | undefined
  /** Lines that the runs have logged. Clients never see them. */
  readonly log?: readonly LogLine[] | undefined
  readonly callback?: CallbackDetails | undefined
  readonly inputs?: Inputs | undefined
  /** Follow-up that has to be created because the task has failed. */
  readonly followUp?: FollowUp | undefined
}

/** A task that is not created yet. */
export interface FollowUp {
  /** Name of its definition. */
  readonly task: string
  readonly work: FailedWork
}

/** Only the core writes details, so they have this type. */
export function detailsOf(task: StoredTask): Details {
  return task.details
}

/** Returns the names of the external resources of a task. */
export function externalNames(
  { external, moreExternal = NO_NAMES }: Pick<Details, 'external' | 'moreExternal'>,
): readonly string[] {
  return external === undefined ? NO_NAMES : [external, ...moreExternal]
}

const NO_NAMES: readonly string[] = []

/** Returns the id of the work of the newest run. It changes with each failed run and each retry. */
export function workIdOf({ id, birth, details }: StoredTask): string {
  const { failures = 0, round = birth } = details as Details
  return `${id}.${failures + 1}.${round}`
}

/** Sets the properties of a failure, or removes those of an earlier one. */
export function withFailure(details: Details, failure: StoredTaskFailure | undefined): Details {
  if (failure === undefined) {
    return details.error === undefined
      ? details : { ...details, error: undefined, errorStatus: undefined, errorFields: undefined }
  }
  const { status, headers, ...error } = failure
  return { ...details, error, errorStatus: status, errorFields: headers }
}

/** State of a callback. Times are milliseconds since 1970. */
export interface CallbackDetails {
  readonly url: string
  readonly state: TaskCallback['state']
  readonly attempts: number
  /** Number of the first attempt of this round. Default 1. */
  readonly first?: number | undefined
  readonly lastStatus?: number | undefined
  readonly fault?: CallbackFault | undefined
  readonly deliveredAt?: number | undefined
  /** Number of times that a limit postponed the next attempt. */
  readonly postponed?: number | undefined
}

/** Makes a callback due: that of the end of a task, or of a question. */
export function dueCallback({ url, attempts }: CallbackDetails): CallbackDetails {
  return { url, state: 'pending', attempts, ...attempts > 0 && { first: attempts + 1 } }
}

/** @param nextAt - time of the next attempt, if one is due */
export function callbackText(
  { state, attempts, lastStatus, fault, deliveredAt }: CallbackDetails, nextAt: number | undefined,
): string {
  const isRepeated = state === 'pending' && attempts > 0
  const nextAttemptAt = isRepeated ? toIso(nextAt) : undefined
  return JSON.stringify({
    state, attempts, lastStatus, fault, nextAttemptAt, deliveredAt: toIso(deliveredAt),
  } satisfies Record<keyof TaskCallback, unknown>)
}

function toIso(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : new Date(ms).toISOString()
}

const MAX_RUNS = 10
const MAX_MESSAGE_LENGTH = 500

type Run = Pick<
  StoredTask, 'status' | 'attempt' | 'startedAt' | 'runStartedAt' | 'finishedAt' | 'details'
>
type RunError = NonNullable<PastAttempt['error']>
type Attempts = readonly PastAttempt[] | undefined

const INTERRUPTED: RunError = {
  code: 'task_interrupted', message: 'The process that ran this task stopped or crashed.',
}

const CANCELLED: RunError = { code: 'task_cancelled', message: ERROR_CODES.task_cancelled[1] }

/** A task with one run has no history, because the task shows that run already. */
export function historyAfter(
  before: Run, now: Pick<Run, 'status' | 'attempt' | 'finishedAt'>,
  error: RunError | undefined,
): Attempts {
  const { attempts } = before.details as Details
  if (before.status !== 'processing') return attempts
  // The engine runs the task again, because the process of the last run has died.
  if (now.attempt > before.attempt) return withRun(before, INTERRUPTED, Date.now())
  if (now.status === 'processing') return attempts
  if (now.status !== 'queued' && attempts === undefined) return undefined
  return withRun(before, now.status === 'cancelled' ? CANCELLED : error, now.finishedAt ?? Date.now())
}

export function historyOfFinal(task: Run): Attempts {
  const { status, attempt, finishedAt } = task
  const { attempts, error = status === 'cancelled' ? CANCELLED : undefined } = task.details as Details
  const isComplete = attempt === 0 || attempts?.at(-1)?.attempt === attempt
  return isComplete ? attempts : withRun(task, error, finishedAt ?? Date.now())
}

function withRun(
  { attempt, startedAt, runStartedAt, details }: Run,
  error: RunError | undefined, endedAt: number,
): readonly PastAttempt[] {
  const { attempts = [] } = details as Details
  const run = {
    attempt,
    startedAt: new Date(runStartedAt ?? startedAt ?? endedAt).toISOString(),
    endedAt: new Date(endedAt).toISOString(),
    ...error && {
      error: { code: error.code, message: cutText(error.message, MAX_MESSAGE_LENGTH) },
    },
  }
  return [...attempts, run].slice(-MAX_RUNS)
}
