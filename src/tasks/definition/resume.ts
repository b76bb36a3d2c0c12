import { isHttpError } from '../../http/errors.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import type { Schema } from '../../schema/schema.js'
import type { TaskContext } from './run-context.js'

/** A task that runs again: the argument of `resume`. */
export interface ResumedTask {
  /** Aborts when the task is stopped. */
  readonly signal: AbortSignal
  /** Owner of the task. */
  readonly owner: string | undefined
  /** The part of the request's context that was stored with the task. */
  readonly context: unknown
  /** Id of the task. */
  readonly taskId: string
}

export type Resume = (task: ResumedTask) => MaybePromise<string | null | undefined>

export interface RunStart<P> {
  /** `undefined` is the beginning. */
  readonly position: P | undefined
  /** The cursor that the application has stored. `undefined` if there is none. */
  readonly previous: string | undefined
}

/**
 * Returns the place at which a run begins: that of the cursor of the application, or else its
 * checkpoint.
 *
 * @throws {TypeError} `resume` has returned something else.
 */
export async function resumedFrom<P>(
  caller: string, resume: Resume | undefined, isPosition: (value: unknown) => value is P,
  task: TaskContext<unknown, P>,
): Promise<RunStart<P>> {
  const { attempt, taskId, owner, context, signal } = task
  // A run without a task id is the only one.
  if (resume === undefined || taskId === undefined || attempt === 1) {
    return { position: task.checkpoint.value, previous: undefined }
  }
  const previous = await resume({ taskId, owner, context, signal }) ?? undefined
  const position = previous === undefined ? undefined : readCursor(caller, previous, isPosition)
  return { position, previous }
}

/**
 * Returns true for the error that a write throws because another run has stored a later cursor.
 * Then this run ends, and the task is not failed by it while it has another attempt.
 */
export function isReplaced(error: unknown): boolean {
  return isHttpError(error) && error.code === 'attempt_replaced'
}

/**
 * Maximum time between two saves of a position if the application stores the cursor, in
 * milliseconds. It is much shorter than a lease.
 */
const SAVE_EACH_MS = 500

/**
 * Returns the function that saves the position of a run after each batch. If the application stores
 * the cursor, it saves only the first one and then one in each half second: they show the engine
 * that the task gets on, so that a crash after them counts as the first one. If another run has begun
 * meanwhile, because this process was suspended, the save is rejected and this run ends.
 */
export function positionSaver<P>(
  resume: unknown, checkpoint: Pick<TaskContext<unknown, P>['checkpoint'], 'save'>,
): (position: P) => Promise<void> {
  if (resume === undefined) return (position) => checkpoint.save(position)
  let savedAt = -Infinity
  return async (position) => {
    if (performance.now() - savedAt < SAVE_EACH_MS) return
    await checkpoint.save(position)
    savedAt = performance.now()
  }
}

/**
 * Reads the text that `cursor` has made of a position.
 *
 * @throws {TypeError} It is no such text.
 */
function readCursor<P>(
  caller: string, cursor: string, isPosition: (value: unknown) => value is P,
): P {
  let position: unknown
  try {
    position = JSON.parse(String(cursor))
  } catch {
    // It is no position.
  }
  if (isPosition(position)) return position
  throw new TypeError(`${caller}: resume must return a text that cursor() has made, or undefined`)
}

export function positionSchema<P>(isPosition: (value: unknown) => value is P): Schema<P> {
  const validate = (value: unknown) => (
    isPosition(value) ? { value } : { issues: [{ message: 'is no position of this task' }] }
  )
  return { '~standard': { version: 1, vendor: 'longhaul', validate } }
}
