export type { ErrorDetail } from '../wire/errors.js'
export type { PartialResult } from '../wire/partial.js'
export type { BulkItem } from '../wire/report.js'
export type {
  PastAttempt, ServedFile as TaskFile, TaskCallback, TaskFailure, TaskInput, TaskProgress,
} from '../wire/task.js'
export { BulkFailedError, isBulkFailed, type BulkReport } from './bulk.js'
export {
  createClient, type Client, type InputOf, type OpenApiTask, type ResultOf,
  type TaskTypes, type TypedTask,
} from './client.js'
export type { Download, DownloadPosition } from './download.js'
export { ClientError, isClientError } from './errors.js'
export { readNdjson, writeNdjson, type ByteSource, type LineFault, type Records } from './ndjson.js'
export type { ClientOptions } from './options.js'
export {
  isTaskFailed, TaskFailedError, type CancelledTask, type CompletedTask, type FailedTask,
  type InputRequiredTask, type ProcessingTask, type ScheduledTask, type TaskStatus,
} from './status.js'
export { readPartialResults } from './partial-results.js'
export type { SavedTask, TaskHandle } from './task.js'
export type { ListedTask, TaskList, TaskPage } from './task-list.js'
export type { FileUpload, SavedFileUpload } from './upload-file.js'
export type { UploadReport } from './upload.js'
export { verifyCallback, type CallbackMessage } from './verify-callback.js'
export { watchTask, type TaskWatch, type WatchedTask } from './watch.js'
