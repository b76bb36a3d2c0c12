export {
  LonghaulModule, TASK_ENDPOINTS, TASKS, type LonghaulModuleAsyncOptions,
  type LonghaulModuleOptions, type NestContext,
} from './module.js'
