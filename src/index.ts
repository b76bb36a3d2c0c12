export {
  compose, describe,
  type BodySource, type Handler, type HttpRequest, type HttpResponse, type MaybePromise, type Operation, type Policy, type PolicyPlace,
  type RequestHeaders, type ResponseBody, type ResponseHeaders,
} from './http/exchange.js'
export { ERROR_CODES, HttpError, httpError, isHttpError, type ErrorCode, type ErrorDetail, type HttpErrorOptions } from './http/errors.js'
export { upstreamError } from './http/upstream.js'
export { guard, type GuardOptions, type OnError } from './http/boundary.js'
export { readBytes, readJson, type ReadBytesOptions, type ReadJsonOptions } from './http/body.js'
export { compileJson } from './http/compile-json.js'
export { empty, errorResponse, json, jsonText, stream } from './http/respond.js'
export { parsePrefer, type Preference, type Preferences } from './http/prefer.js'
export { negotiate, parseAccept, type MediaRange } from './http/accept.js'
export { jsonSchema, type DescribedSchema, type JsonSchemaOptions, type Schema } from './schema/index.js'
export { isStoreUnavailable, StoreUnavailableError } from './stores/store.js'
export type { StoreEvent } from './stores/channel.js'
export type { Conflict, Counter, Created, Entry, Evictable, Existing, Replaced, ReplaceOptions, Revision, Store, Unsubscribe, WriteOptions } from './stores/store.js'
export type { TaskIndex } from './stores/task-index.js'
export type { BlobInfo, BlobPutOptions, BlobRange, Blobs } from './stores/blobs.js'
export { HandBackError, isHandBack, isQueueClosing, QueueClosingError } from './queues/queue.js'
export type { Attempt, Backoff, DeadReason, EnqueueOptions, Job, ProcessOptions, Queue, RunJob } from './queues/queue.js'
export {
  azureFace, createTasks, defineTask, jobFace, OwnedTasks, permanent, taskEndpoints, taskFace, Tasks,
  type AcceptOptions, type Accepted, type AnyTaskDefinition, type AzureFaceOptions, type CallbackFault, type Callbacks,
  type CallbackState, type CallbackView, type Face, type FaceAnswer, type FaceDescription,
  type FindCallback, type Kept, type OwnedSubmitOptions, type OwnerOption, type ReadWork,
  type Select,
  type Selected,
  type SubmitEndpointOptions, type SubmitOptions, type TaskContext, type TaskDefinition, type TaskEndpoints, type TaskEndpointsOptions,
  type TaskEvent,
  type SpooledBody, type SpooledTaskOptions, type TaskFailure, type TaskOptions,
  type TaskProgress, type TaskResult, type TaskSnapshot, type TasksOptions, type TaskState, type TaskView, type WaitOptions,
} from './tasks/index.js'
export { idempotent, type IdempotentOptions, type KeptAnswer, type OnceWork } from './idempotency/index.js'
export { blobSource, content, type ContentCoding, type ContentOptions, type ContentSource, type FindContent } from './content/index.js'
export type { Call, Outcome, Page, PageRequest, Repository, Update } from './repositories/repository.js'
export {
  collection, cors, list, resource, router, strictQuery, trace,
  type Collection, type CollectionOptions, type CorsOptions, type IdFormat, type ListOptions, type Methods,
  type ResourceOptions, type RouterOptions, type StrictQueryOptions, type TraceOptions,
} from './resources/index.js'
export {
  LineReader, ndjsonBytes, ndjsonDownload, ndjsonUpload, readRecords, uploadTask,
  type DownloadOptions, type IntakeOptions, type Layout, type LineError, type LineErrorCode, type LineReaderOptions, type RecordBatch,
  type RecordFault, type RecordOutcome, type RecordSource, type UploadError, type UploadLimits, type UploadOptions,
  type UploadResult, type UploadSummary, type UploadTask, type UploadTaskOptions, type WriteContext,
} from './ndjson/index.js'
export {
  bulkCreate, bulkCreateTask, bulkItems, bulkUpdate, bulkUpdateTask,
  type BulkBackground, type BulkCreateOptions, type BulkFaultPlace, type BulkItem, type BulkItemsOptions, type BulkOptions, type BulkReport,
  type BulkSummary, type BulkTask,
  type BulkTaskOptions, type BulkTaskResult, type BulkUpdateOptions, type ItemId, type Shown, type SpooledBatch,
} from './bulk/index.js'
export { decodeBody, readDecoded, REQUEST_CODINGS, type DecodeOptions } from './http/decode.js'
export type { CallbackEvent } from './callbacks/index.js'
export {
  apiKey, authenticate, authorize, basic, bearer, bodyBytes, clientAddress, consume, crossSite, hostUser, limitBody, limitConcurrency, limitHeaders,
  rateLimit, requestId, requestIdOf, sameSecret, timeouts, tokens,
  type ApiKeyPlace, type AuthenticateOptions, type AuthorizeOptions, type ClientAddressOptions, type CredentialCache, type Credentials,
  type CrossSiteOptions, type LimitBodyOptions, type LimitBy,
  type LimitConcurrencyOptions, type LimitHeadersOptions, type RateLimitEvent, type RateLimitOptions, type RateLimitPolicy, type RequestIdOptions,
  type Scheme, type TimeoutsOptions, type VerifyPassword, type VerifyToken,
} from './policies/index.js'
export { principalOf, type Principal } from './http/principal.js'
export {
  byMediaTypeParameter, byPath, byQuery, byVendorMediaType, deprecated, versionNeutral, versions,
  type Asked, type Candidate, type DeprecationOptions, type Selector, type VersionOptions, type VersionsOptions, type VersionUse,
} from './versioning/index.js'
export {
  addParameters, addResponseHeaders, addResponses, body, errorResponses, fields, header, openapi, operation, parameter, response,
  type BodyOptions, type BodySchema, type DocumentOptions, type Fragment, type OperationOptions, type ParameterOptions, type ResponseOptions,
} from './openapi/index.js'
