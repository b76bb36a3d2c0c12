export { taskMetrics, type TaskMetricsOptions } from './metrics.js'
export { taskTracing, type TaskTracingOptions } from './tracing.js'
export type { TracedStep, TraceHeaders, Tracing } from '../../src/tasks/definition/tracing.js'
