export { exportTask } from './export-task.js'
export type { ExportColumn } from './csv-text.js'
export type {
  ExportContext, ExportFormat, ExportResult, ExportTaskOptions, RecordsContext,
} from './options.js'
