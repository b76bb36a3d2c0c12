import { cutText } from '../../runtime/cut-text.js'
import type { TaskStatus } from '../../engine/task.js'

/** Maximum number of runs in the history of a task. The oldest are dropped first. */
const MAX_RUNS = 10
/** Maximum length of a message in the history, in UTF-16 units. */
const MAX_MESSAGE_LENGTH = 500

/**
 * One run of a task that has ended, as its record and its status resource show it. Times are ISO
 * 8601.
 */
export interface AttemptView {
  /** Number of the run, from 1. It counts over all retries. */
  readonly attempt: number
  readonly startedAt: string
  readonly endedAt: string
  /** Absent if the run completed or was cancelled. */
  readonly error?: RunError
}

/** The reason why a run failed. */
export interface RunError {
  readonly code: string
  readonly message: string
}

/** The members of a record that its history is made of. Times are milliseconds since 1970. */
interface Run {
  readonly state: TaskStatus
  readonly attempt: number
  readonly attempts?: readonly AttemptView[] | undefined
  readonly startedAt: number | undefined
  readonly runStartedAt?: number | undefined
  readonly finishedAt: number | undefined
  readonly error: RunError | undefined
}

const INTERRUPTED: RunError = {
  code: 'task_interrupted', message: 'The process that ran this task stopped or crashed.',
}

/**
 * Returns the history of a task after a change. A run is added when it ends and another one
 * follows, and when a task ends after more than one run. So a task with one run has no history: its
 * record shows that run already.
 *
 * @param error - the reason why the run ended
 */
export function historyAfter(
  before: Run, now: Pick<Run, 'state' | 'attempt' | 'finishedAt'>,
  error: RunError | undefined,
): Run['attempts'] {
  if (before.state !== 'processing') return before.attempts
  // The engine runs the task again, because the process of the last run has died.
  if (now.attempt > before.attempt) return withRun(before, INTERRUPTED, Date.now())
  if (now.state === 'processing') return before.attempts
  if (now.state !== 'queued' && before.attempts === undefined) return undefined
  return withRun(before, error, now.finishedAt ?? Date.now())
}

/** Returns the history of a final task that is about to run again. */
export function historyOfFinal(record: Run): Run['attempts'] {
  const { attempt, attempts, error, finishedAt } = record
  const isComplete = attempt === 0 || attempts?.at(-1)?.attempt === attempt
  return isComplete ? attempts : withRun(record, error, finishedAt ?? Date.now())
}

function withRun(
  { attempt, attempts = [], startedAt, runStartedAt }: Run,
  error: RunError | undefined, endedAt: number,
): readonly AttemptView[] {
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
