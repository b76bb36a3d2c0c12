export { ndjsonBytes, ndjsonDownload, type DownloadOptions, type RecordSource } from './download.js'
export { LineReader, readRecords, type LineReaderOptions, type RecordBatch } from './line-reader.js'
export type { LineError, LineErrorCode } from './line-text.js'
export type { Layout } from './record-text.js'
export { ndjsonUpload, type BackgroundUpload } from './upload.js'
export type {
  ResumeContext, UploadBackgroundOptions, UploadItem, UploadOptions, UploadResult, UploadTask,
  WriteContext,
} from './upload-options.js'
export type { UploadSource } from './upload-source.js'
export type { RecordFault, RecordOutcome } from '../records/outcome.js'
export type { RecordPosition, ReportText } from '../records/position.js'
export type { ReportCounts, ReportItem, ReportSummary } from '../records/report.js'
export type { Outcomes } from '../records/write-loop.js'
