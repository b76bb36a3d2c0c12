export {
  HandBackError, isHandBack, isQueueClosing, QueueClosingError, type Attempt, type Backoff,
  type DeadReason, type EnqueueOptions, type EnqueueOutcome, type Job, type ProcessOptions,
  type Queue, type QueueCounts, type RunJob,
} from './queue.js'
