/** State of a task. The last three are final. */
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

/** Returns whether a task may move from one state to another. */
export function canMove(from: TaskState, to: TaskState): boolean {
  return MOVES[from].includes(to)
}

/** Returns whether a state is final. */
export function isFinal(state: TaskState): boolean {
  return MOVES[state].length === 0
}
