export {
  LISTED_STATUSES, Places, comparePositions, type CreateOptions, type ListPosition, type ListedStatus,
  type PoolCounts, type TaskEngine, type TaskQuery, type TaskRun, type Transaction, type WorkHandlers,
  type WorkOptions,
} from './engine.js'
export {
  RunReplacedError, RunSignal, WorkerClosingError, isRunReplaced, isWorkerClosing,
} from './runs.js'
export {
  isFinalStatus, type CallerLimit, type Changed, type Created, type Expected, type FileShare, type NewTask,
  type StoredTask, type TaskChange, type TaskDetails, type TaskRef, type TaskStatus,
} from './task.js'
export { Json } from '../runtime/json.js'
