export { bullmqTask, type BullmqTaskOptions } from './bullmq-task.js'
export type { JobEvents, JobQueue, QueuedJob } from './job-queue.js'
