export {
  compose, type Handler, type HttpRequest, type HttpResponse, type NextHandler, type Operation,
  type Policy, type RequestHeaders, type ResponseHeaders,
} from './http/exchange.js'
export type { Transaction } from './engine/engine.js'
export type { MaybePromise } from './wire/maybe-promise.js'
export {
  ERROR_CODES, HttpError, httpError, isHttpError, upstreamError, type ErrorCode,
} from './http/errors.js'
export type { ErrorDetail } from './wire/errors.js'
export { guard, reportErrorsTo, type ErrorPlace, type OnError } from './http/boundary.js'
export { empty, json, jsonText, stream } from './http/respond.js'
export { principalOf, type HostContext, type Principal } from './http/principal.js'
export { jsonSchema } from './schema/json-schema.js'
export type { DescribedSchema, Schema } from './schema/schema.js'
export { router } from './resources/router.js'
export type { Methods } from './resources/methods.js'
export {
  defineTask, type AnyTaskDefinition, type ContextOf, type Definitions, type InputOf, type NameOf,
  type ResultOf, type TaskDefinition, type TaskOptions, type TaskTypes,
} from './tasks/definition/define.js'
export type {
  AnswerOf, Ask, Checkpoint, Question, TaskContext, TaskFiles,
} from './tasks/definition/run-context.js'
export type { FailedWork, StoredError } from './tasks/definition/failed-work.js'
export { createTasks, type Tasks } from './tasks/tasks.js'
export type { PoolCounts, TasksHealth } from './tasks/core/task-core.js'
export type { ListOptions, TaskPage } from './tasks/lists.js'
export type { OwnedTasks, SubmitArguments, TaskHandle } from './tasks/owned-tasks.js'
export type { TasksOptions } from './tasks/core/tasks-options.js'
export type { Callbacks } from './tasks/core/task-core.js'
export type { SpooledBody } from './tasks/http/spool-body.js'
export type { TaskFailure, TaskFile, TaskProgress } from './wire/task.js'
export type { TaskEvent } from './tasks/record/diagnostics.js'
export type { StoredTask, TaskStatus } from './engine/task.js'
export { listedStatus } from './tasks/record/view.js'
export type {
  CancelledTask, CompletedTask, FailedTask, InputRequiredTask, PastAttempt, ProcessingTask, QueuedTask,
  ScheduledTask, Task, TaskCallback, TaskInput,
} from './tasks/record/view.js'
export type { LogLine } from './tasks/record/run-log.js'
export type { FailureDetails, RunFailure } from './tasks/record/stored-failure.js'
export type { JsonForm, JsonSafe } from './tasks/definition/json-values.js'
export type { SubmitOptions } from './tasks/core/accept-task.js'
export { permanent } from './tasks/run/failure.js'
export { taskEndpoints, type TaskEndpoints } from './tasks/http/endpoints.js'
export type { TaskEndpointsOptions, FindCallback, FindStart } from './tasks/http/settings.js'
export { jobFormat, taskFormat, type TaskFormat } from './tasks/http/formats.js'
export type {
  ReadWork, Select, Selected, SubmitEndpoint, SubmitEndpointArguments, SubmitEndpointOptions,
  SubmitTransaction,
} from './tasks/http/settings.js'
