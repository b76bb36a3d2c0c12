export { BulkFailedError, isBulkFailed, type BulkItem, type BulkOptions, type BulkReport } from './bulk.js'
export {
  createClient, type Client, type DefinitionLike, type InputOf, type NamedTypes, type OpenApiTask,
  type RecordsOptions, type ResultOf, type RunOptions, type TaskResult, type TaskTypes, type TypedTask,
  type TypedTaskOptions,
} from './client.js'
export type { Download, DownloadOptions, DownloadPosition, DownloadProgress } from './download.js'
export { ClientError, isClientError, type ClientErrorOptions, type ErrorDetail } from './errors.js'
export {
  readNdjson, writeNdjson, type ByteSource, type LineFault, type LineFaultCode,
  type ReadNdjsonOptions, type Records,
} from './ndjson.js'
export type { ClientOptions, MaybePromise, PollOptions, RetryOptions } from './options.js'
export {
  isTaskFailed, TaskFailedError, type CallbackFault, type CancelledTask, type CompletedTask,
  type FailedTask, type PastAttempt, type ProcessingTask, type ScheduledTask, type TaskCallback,
  type TaskFailure, type TaskFile, type TaskProgress, type TaskStatus,
} from './status.js'
export type { SubmitOptions } from './submit.js'
export type { ResultOptions, SavedTask, SignalOptions, TaskHandle } from './task.js'
export type { ListedTask, TaskList, TaskListOptions, TaskPage } from './task-list.js'
export type {
  FileUpload, FileUploadOptions, FileUploadProgress, SavedFileUpload, UploadContent,
} from './upload-file.js'
export type { UploadOptions, UploadRecords, UploadReport } from './upload.js'
export {
  verifyCallback, type CallbackHeaders, type CallbackMessage, type VerifyOptions,
} from './verify-callback.js'
