export {
  exportTask, type ExportContext, type ExportFormat, type ExportResult, type ExportTaskOptions,
  type RecordsContext,
} from './export-task.js'
export type { ExportColumn } from './export-text.js'
