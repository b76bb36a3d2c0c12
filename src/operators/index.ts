export {
  operatorEndpoints, type OperatorEndpoints, type OperatorEndpointsOptions,
} from './operator-endpoints.js'
export {
  retryTasks, type RetryFailure, type RetryFilter, type RetryReport, type RetryTasks,
  type RetryTasksOptions,
} from './retry-tasks.js'
