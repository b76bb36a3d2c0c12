export { BulkFailedError, isBulkFailed, type BulkItem, type BulkReport } from './bulk.js'
export {
  createClient, type Client, type InputOf, type OpenApiTask, type ResultOf,
  type TaskTypes, type TypedTask,
} from './client.js'
export type { Download, DownloadPosition } from './download.js'
export { ClientError, isClientError, type ErrorDetail } from './errors.js'
export { readNdjson, writeNdjson, type ByteSource, type LineFault, type Records } from './ndjson.js'
export type { ClientOptions } from './options.js'
export {
  isTaskFailed, TaskFailedError, type CancelledTask, type CompletedTask, type FailedTask,
  type InputRequiredTask, type PastAttempt, type ProcessingTask, type ScheduledTask, type TaskCallback,
  type TaskFailure, type TaskFile, type TaskInput, type TaskProgress, type TaskStatus,
} from './status.js'
export { readPartialResults, type PartialResult } from './partial-results.js'
export type { SavedTask, TaskHandle } from './task.js'
export type { ListedTask, TaskList, TaskPage } from './task-list.js'
export type { FileUpload, SavedFileUpload } from './upload-file.js'
export type { UploadReport } from './upload.js'
export { verifyCallback, type CallbackMessage } from './verify-callback.js'
