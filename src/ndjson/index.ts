export { ndjsonBytes, ndjsonDownload, type RecordSource } from './download.js'
export { LineReader, readRecords, type RecordBatch } from './line-reader.js'
export type { LineError } from './line-text.js'
export { ndjsonUpload, type BackgroundUpload } from './upload.js'
export { uploadItems } from './upload-items.js'
export type { UploadTask, WriteContext } from './upload-options.js'
export {
  noRecord, type SourceFault, type NoRecord, type RejectedFormat,
  type UploadSource,
} from './upload-source.js'
export type { WriteOutcome } from './write-outcomes.js'
export type { RecordOutcome } from '../records/outcome.js'
export type { ReportItem, UploadItem, UploadResult } from '../wire/report.js'
