export { ndjsonBytes, ndjsonDownload, type DownloadOptions, type RecordSource } from './download.js'
export type { IntakeOptions, WriteContext } from './intake.js'
export type { LineError, LineErrorCode } from './line-error.js'
export type { Layout } from './line-text.js'
export { LineReader, type LineReaderOptions, type RecordBatch } from './lines.js'
export { readRecords } from './read-records.js'
export type {
  RecordFault, RecordOutcome, UploadError, UploadResult, UploadSummary,
} from './report.js'
export { ndjsonUpload } from './upload.js'
export { uploadTask } from './upload-task.js'
export type {
  UploadLimits, UploadOptions, UploadTask, UploadTaskOptions,
} from './upload-options.js'
