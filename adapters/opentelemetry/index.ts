export { taskMetrics } from './metrics.js'
export { taskTracing } from './tracing.js'
export type { Tracing } from '../../src/tasks/definition/tracing.js'
