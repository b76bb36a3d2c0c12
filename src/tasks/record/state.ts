/** Where a task is. The last three are final. */
export type TaskState = 'queued' | 'processing' | 'completed' | 'failed' | 'cancelled'

/**
 * Every legal move; each is written by compare-and-set. A move to itself is a new run after a lost
 * one.
 */
const MOVES: Readonly<Record<TaskState, readonly TaskState[]>> = {
  queued: ['processing', 'failed', 'cancelled'],
  processing: ['processing', 'queued', 'completed', 'failed', 'cancelled'],
  completed: [],
  failed: [],
  cancelled: [],
}

/** Whether a task may go from one state to another. */
export function canMove(from: TaskState, to: TaskState): boolean {
  return MOVES[from].includes(to)
}

/** Whether nothing can change any more. */
export function isFinal(state: TaskState): boolean {
  return MOVES[state].length === 0
}
