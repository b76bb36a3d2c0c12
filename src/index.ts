export {
  compose, type BodySource, type Handler, type HttpRequest, type HttpResponse, type NextHandler,
  type Operation, type Policy, type PolicyPlace, type RequestChanges, type RequestHeaders,
  type ResponseBody, type ResponseHeaders,
} from './http/exchange.js'
export type { Transaction } from './engine/engine.js'
export type { MaybePromise } from './runtime/maybe-promise.js'
export {
  ERROR_CODES, HttpError, httpError, isHttpError, upstreamError, type ErrorCode, type ErrorDetail,
  type HttpErrorOptions,
} from './http/errors.js'
export {
  guard, reportErrorsTo, type GuardOptions, type OnError, type ErrorPlace,
} from './http/boundary.js'
export { empty, errorResponse, json, jsonText, stream } from './http/respond.js'
export { principalOf, type HostContext, type OwnerOption, type Principal } from './http/requester.js'
export { jsonSchema, type JsonSchemaOptions } from './schema/json-schema.js'
export type { DescribedSchema, Schema } from './schema/schema.js'
export { router } from './resources/router.js'
export type { MethodOptions, Methods } from './resources/methods.js'
export {
  defineTask, type AnyTaskDefinition, type Backoff, type ContextOf, type Definitions,
  type InputOf, type NameOf, type ResultOf, type TaskDefinition, type TaskOptions,
  type TaskResult, type TaskSettings, type TaskTypes,
} from './tasks/definition/define.js'
export type { EndedTask, ExternalResource } from './tasks/definition/external-resource.js'
export type {
  Checkpoint, FileContent, TaskContext, TaskFile, TaskFiles, WriteFileOptions,
} from './tasks/definition/run-context.js'
export { createTasks, type Tasks } from './tasks/tasks.js'
export type { PoolCounts, TasksHealth } from './tasks/core/task-service.js'
export type { ListOptions, TaskPage } from './tasks/lists.js'
export type { OwnedTasks, SubmitArguments, TaskHandle } from './tasks/owned-tasks.js'
export type { PoolOptions, TasksOptions } from './tasks/tasks-options.js'
export type { Callbacks } from './tasks/core/task-core.js'
export type { SpooledBody } from './tasks/http/spool-body.js'
export type { SpooledTaskOptions } from './records/spool.js'
export type {
  AttemptView, CallbackFault, CallbackView, RunError, TaskFailure, TaskProgress,
} from './tasks/record/details.js'
export type { TaskEvent } from './tasks/record/diagnostics.js'
export type { TaskSnapshot } from './tasks/record/snapshot.js'
export type { TaskStatus } from './engine/task.js'
export type {
  CancelledTask, CompletedTask, FailedTask, PastAttempt, ProcessingTask, QueuedTask,
  ScheduledTask, Task, TaskCallback,
} from './tasks/record/view.js'
export type { JsonForm, JsonSafe } from './tasks/definition/json-values.js'
export type { WaitOptions } from './tasks/record/subscriptions.js'
export type { OwnedSubmitOptions, SubmitOptions } from './tasks/core/accept-task.js'
export { permanent } from './tasks/run/failure.js'
export { taskEndpoints, type TaskEndpoints } from './tasks/http/endpoints.js'
export type { TaskEndpointsOptions, FindCallback, FindStart } from './tasks/http/settings.js'
export {
  jobFormat, taskFormat, type TaskFormat, type TaskFormatResponse, type TaskFormatDescription,
} from './tasks/http/formats.js'
export type { OperatorListOptions } from './tasks/http/lists.js'
export type { OperatorOverviewOptions } from './tasks/http/overview.js'
export type {
  ReadWork, Select, Selected, SubmitEndpoint, SubmitEndpointArguments, SubmitEndpointOptions,
  SubmitTransaction,
} from './tasks/http/submit-options.js'
