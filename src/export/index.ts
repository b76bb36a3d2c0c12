export { exportTask, type ExportResult } from './export-task.js'
