export {
  LISTED_STATUSES, type CreateOptions, type ListedStatus, type PoolCounts, type TaskEngine,
  type TaskQuery, type TaskRun, type WorkHandlers, type WorkOptions,
} from './engine.js'
export { comparePositions, type ListPosition } from './list-position.js'
export { Places } from './places.js'
export { RunSignal } from './run-signal.js'
export {
  isRunReplaced, isWorkerClosing, RunReplacedError, WorkerClosingError,
} from './stop-reasons.js'
export {
  isFinalStatus, type CallerLimit, type Changed, type Created, type Expected, type FileShare, type NewTask,
  type StoredTask, type TaskChange, type TaskDetails, type TaskRef, type TaskStatus,
} from './task.js'
export { Json } from '../runtime/json.js'
