export { ndjsonBytes, ndjsonDownload, type DownloadOptions, type RecordSource } from './download.js'
export type { LineError, LineErrorCode } from './line-error.js'
export { LineReader, type LineReaderOptions, type RecordBatch } from './line-reader.js'
export { readRecords } from './read-records.js'
export type { Layout } from './record-text.js'
export { ndjsonUpload, type BackgroundUpload } from './upload.js'
export type {
  ResumeContext, UploadBackgroundOptions, UploadOptions, UploadTask, WriteContext,
} from './upload-options.js'
export type { UploadPosition } from './upload-position.js'
export type {
  RecordFault, RecordOutcome, UploadError, UploadResult, UploadSummary,
} from './upload-report.js'
