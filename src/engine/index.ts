export {
  Places, type CreateOptions, type PoolCounts, type TaskEngine, type TaskQuery, type TaskRun,
  type Transaction, type WorkHandlers, type WorkOptions,
} from './engine.js'
export { nameFault } from './names.js'
export { RunReplacedError, RunSignal, WorkerClosingError, isWorkerClosing } from './runs.js'
export {
  isFinalStatus, type Changed, type Created, type Expected, type NewTask, type StoredTask,
  type TaskChange, type TaskDetails, type TaskRef, type TaskStatus,
} from './task.js'
export { Json } from '../runtime/json.js'
export { OwnContext } from '../runtime/own-context.js'
