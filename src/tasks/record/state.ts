import { isFinalStatus, type TaskStatus } from '../../engine/task.js'

/** State of a task. The last three are final. */
export type TaskState = TaskStatus

/** Returns whether a state is final. */
export const isFinal = isFinalStatus
