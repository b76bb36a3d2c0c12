export { taskMetrics, type TaskMetricsOptions } from './metrics.js'
export { taskTracing, type TaskTracingOptions } from './tracing.js'
