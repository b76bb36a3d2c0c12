import { cutText } from '../../runtime/text.js'
import type { StoredTask } from '../../engine/task.js'
import type { AttemptView, Details, RunError } from './details.js'

/** Maximum number of runs in the history of a task. The oldest are dropped first. */
const MAX_RUNS = 10
/** Maximum length of a message in the history, in UTF-16 units. */
const MAX_MESSAGE_LENGTH = 500

/** The properties of a task that its history is made of. */
type Run = Pick<
  StoredTask, 'status' | 'attempt' | 'startedAt' | 'runStartedAt' | 'finishedAt' | 'details'
>
type Attempts = readonly AttemptView[] | undefined

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
  before: Run, now: Pick<Run, 'status' | 'attempt' | 'finishedAt'>,
  error: RunError | undefined,
): Attempts {
  const { attempts } = before.details as Details
  if (before.status !== 'processing') return attempts
  // The engine runs the task again, because the process of the last run has died.
  if (now.attempt > before.attempt) return withRun(before, INTERRUPTED, Date.now())
  if (now.status === 'processing') return attempts
  if (now.status !== 'queued' && attempts === undefined) return undefined
  return withRun(before, error, now.finishedAt ?? Date.now())
}

/** Returns the history of a final task that is about to run again. */
export function historyOfFinal(task: Run): Attempts {
  const { attempt, finishedAt } = task
  const { attempts, error } = task.details as Details
  const isComplete = attempt === 0 || attempts?.at(-1)?.attempt === attempt
  return isComplete ? attempts : withRun(task, error, finishedAt ?? Date.now())
}

function withRun(
  { attempt, startedAt, runStartedAt, details }: Run,
  error: RunError | undefined, endedAt: number,
): readonly AttemptView[] {
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
