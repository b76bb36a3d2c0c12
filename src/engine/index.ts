export {
  Places, type CreateOptions, type PoolCounts, type RunLimits, type StartsPer, type TaskEngine,
  type TaskQuery, type TaskRun, type Transaction, type WorkHandlers, type WorkOptions,
} from './engine.js'
export { LeasedWork, type WorkerCall, type WorkSource } from './leased-work.js'
export {
  LeasedRun, Leases, RunReplacedError, RunSignal, WorkerClosingError, isWorkerClosing, type BegunRun,
  type Renewal,
} from './runs.js'
export {
  isFinalStatus, nameFault, type Changed, type Created, type Expected, type NewTask,
  type StoredTask, type TaskChange, type TaskDetails, type TaskRef, type TaskStatus, type Unique,
} from './task.js'
export { Json } from '../runtime/json.js'
export { OwnContext } from '../runtime/own-context.js'
