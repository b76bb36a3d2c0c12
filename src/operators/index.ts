export {
  operatorEndpoints, type OperatorEndpoints, type OperatorEndpointsOptions,
} from './operator-endpoints.js'
export {
  cancelTasks, forgetTasks, retryTasks, type CancelFilter, type CancelReport, type CancelTasks,
  type ForgetFilter, type ForgetReport, type ForgetTasks, type RetryFailure, type RetryFilter,
  type RetryReport, type RetryTasks, type RetryTasksOptions,
} from './many-tasks.js'
