export {
  createClient,
  type Client, type RecordsOptions, type RunOptions, type TypedTask, type TypedTaskOptions,
} from './client.js'
export type { ClientOptions, MaybePromise, PollOptions, RetryOptions } from './options.js'
export { ClientError, isClientError, type ClientErrorOptions, type ErrorDetail } from './errors.js'
export { isTaskFailed, TaskFailedError } from './status.js'
export type { ResultOptions, SavedTask, SignalOptions, TaskHandle } from './task.js'
export type {
  CallbackFault, CancelledTask, CompletedTask, FailedTask, PastAttempt, ProcessingTask, TaskCallback,
  TaskFailure, TaskFile, TaskProgress, TaskStatus,
} from './status.js'
export type { ScheduledTask } from './status.js'
export type { SubmitOptions } from './submit.js'
export type { ListedTask, TaskList, TaskListOptions, TaskPage } from './task-list/types.js'
export { readNdjson, type ReadNdjsonOptions } from './read-ndjson.js'
export type { ByteSource } from './chunks.js'
export type { LineFault, LineFaultCode } from './lines.js'
export { writeNdjson, type Records } from './write-ndjson.js'
export type { UploadOptions, UploadRecords, UploadReport } from './upload.js'
export type {
  Download, DownloadOptions, DownloadPosition, DownloadProgress, DownloadResult, DownloadSink,
} from './download.js'
export type {
  FileUpload, FileUploadOptions, FileUploadProgress, SavedFileUpload, UploadContent,
} from './file-upload/types.js'
export { BulkFailedError, isBulkFailed, type BulkOptions } from './bulk.js'
export type { BulkItem, BulkReport } from './bulk-report.js'
export {
  verifyCallback, type CallbackHeaders, type CallbackMessage, type VerifyOptions,
} from './verify-callback.js'
export type {
  DefinitionLike, InputOf, NamedTypes, OpenApiTask, ResultOf, TaskTypes, TaskResult,
} from './typed.js'
