import { compose, jobFormat, router, taskEndpoints, type Handler, type HttpRequest, type Tasks } from 'longhaul'
import { operatorEndpoints } from 'longhaul/operators'
import { idempotent } from 'longhaul/policies'
import { strictQuery } from 'longhaul/resources'
import type { PartialResults } from 'longhaul/partial'
import type { Store } from 'longhaul/stores'
import { access } from './access.js'
import { authorize, operatorsOnly, type Context } from './auth.js'
import type { BulkUsers } from './bulk.js'
import { consoleFiles } from './console-files.js'
import { largeFileContent } from './content.js'
import { frontPage, serverConsole } from './front-page.js'
import type { NdjsonUsers } from './ndjson.js'
import type { ApiDocument } from './openapi.js'
import type { Background } from './tasks/definitions.js'
import { processData } from './tasks/process-data.js'
import { processJob } from './tasks/process-job.js'
import { byTaskAndData, startAt } from './select.js'
import { withTrace } from './trace.js'
import type { Users } from './users/repository.js'
import { usersApi } from './users-api.js'
import { versionedUsers } from './versions.js'

/** The parts that the routes use. */
export interface Parts {
  readonly store: Store
  readonly tasks: Tasks
  readonly users: Users
  readonly ndjson: NdjsonUsers
  readonly bulk: BulkUsers
  /** Partial results of the tasks `tell`. */
  readonly words: PartialResults<string>
  /** Retry, cancel and delete other tasks, for operators. */
  readonly many: Background['many']
  readonly document: ApiDocument
  /** Tokens that the front page shows, so they are no secret. */
  readonly demoTokens: readonly string[]
  /** Names of the tasks, by which the console filters lists. */
  readonly kinds: readonly string[]
  /** True if TRACE is enabled. */
  readonly trace: boolean
}

/** All routes of this server. Each route is protected separately, so that an unknown path is a 404. */
export function routes({
  store, tasks, users, ndjson, bulk, words, many, document, demoTokens, kinds, trace,
}: Parts): Handler<Context> {
  const owner = ({ context }: HttpRequest<Context>): string | undefined => context.principal?.subject
  const common = { owner, callback: 'callbackUrl', startAt, remove: 'forget' } as const
  // A job has no callback and no start for later: properties of those names are job data.
  const task = taskEndpoints(tasks, { ...common, statusPath: '/api/status/{id}' })
  const job = taskEndpoints(tasks, { owner, remove: 'forget', statusPath: '/job-status/{id}', format: jobFormat })
  const started = taskEndpoints(tasks, { ...common, statusPath: '/task-status/{id}' })

  const operators = operatorEndpoints<Context>(tasks, {
    statusPath: '/admin/tasks/{id}', operator: ({ context }) => context.principal?.role === 'admin', remove: 'forget', ...many,
  })

  const page = serverConsole(demoTokens, kinds, document)
  const uploads = ndjson.upload(task, { store, owner })
  const api = usersApi(users)
  const versioned = versionedUsers(users)
  // Tasks, batches and uploads read the Idempotency-Key themselves.
  const once = idempotent<Context>({ store, caller: 'principal' })

  // An unknown parameter is rejected, after the client was authorized.
  const guarded = (handler: Handler<Context>): Handler<Context> => compose(authorize, strictQuery(handler))
  const forOperators = (handler: Handler<Context>): Handler<Context> => compose(authorize, operatorsOnly, strictQuery(handler))

  const all: Record<string, Handler<Context>> = {
    'GET /': frontPage(page, document),
    'GET /console/{file}': consoleFiles(page),
    'GET /api/access': guarded(access),
    'GET /openapi.json': document.handler,
    // SPEC 9
    '/users': compose(authorize, versioned),
    '/{version}/users': compose(authorize, versioned),
    // SPEC 4.1, 4.2
    'GET|HEAD|POST /api/users': guarded(compose(once, api.list)),
    'GET|HEAD|PUT|PATCH|DELETE /api/users/{id}': guarded(compose(once, api.item)),
    // SPEC 4.3, 4.4
    'POST /api/users/bulk': guarded(bulk.create(task)),
    'PATCH /api/users/bulk-update': guarded(bulk.update(task)),
    'GET|HEAD /api/status/{id}/items': guarded(bulk.items(task)),
    // SPEC 4.5
    'GET|HEAD /api/files/large-file': guarded(largeFileContent),
    // SPEC 4.6
    'POST /api/long-running-task': guarded(task.submit(byTaskAndData(tasks))),
    'GET|HEAD|DELETE /api/status/{id}': guarded(task.status),
    'GET|HEAD /api/status/{id}/files/{name}': guarded(task.files),
    'GET|HEAD /api/status/{id}/partial-results': compose(authorize, words.endpoint(task)),
    'GET|HEAD /api/status': guarded(task.list),
    'POST /api/status/{id}/retry': guarded(task.retry),
    'POST /api/status/{id}/callback': guarded(task.callback),
    'POST /api/status/{id}/input': guarded(task.input),
    // SPEC 4.7
    'POST /start-job': guarded(job.submit(processJob, { respond: 'always', emptyBody: {} })),
    'GET|HEAD|DELETE /job-status/{id}': guarded(job.status),
    'GET|HEAD /job-status/{id}/files/{name}': guarded(job.files),
    'GET|HEAD /job-status': guarded(job.list),
    'POST /job-status/{id}/retry': guarded(job.retry),
    'POST /job-status/{id}/callback': guarded(job.callback),
    // SPEC 4.8
    'POST /start-task': guarded(started.submit(processData, { respond: 'always' })),
    'GET|HEAD|DELETE /task-status/{id}': guarded(started.status),
    'GET|HEAD /task-status/{id}/files/{name}': guarded(started.files),
    'GET|HEAD /task-status': guarded(started.list),
    'POST /task-status/{id}/retry': guarded(started.retry),
    'POST /task-status/{id}/callback': guarded(started.callback),
    // SPEC 4.9
    'GET|HEAD /bulk-data': guarded(ndjson.download(task)),
    'POST|OPTIONS /upload-ndjson': guarded(uploads.create),
    'GET|HEAD|PATCH|DELETE|OPTIONS /uploads/{id}': guarded(uploads.resource),
    // The tasks of all owners
    'GET|HEAD /admin/tasks': forOperators(operators.list),
    'POST /admin/tasks/retry': forOperators(operators.retryMany),
    'POST /admin/tasks/cancel': forOperators(operators.cancelMany),
    'POST /admin/tasks/forget': forOperators(operators.forgetMany),
    'GET|HEAD|DELETE /admin/tasks/{id}': forOperators(operators.status),
    'GET|HEAD /admin/tasks/{id}/files/{name}': forOperators(operators.files),
    'POST /admin/tasks/{id}/retry': forOperators(operators.retry),
    'POST /admin/tasks/{id}/callback': forOperators(operators.callback),
    'POST /admin/tasks/{id}/input': forOperators(operators.input),
    'GET|HEAD /admin/overview': forOperators(operators.overview),
    'GET|HEAD /admin/pools': forOperators(operators.pools),
    'PUT|DELETE /admin/pause': forOperators(operators.pause),
  }
  return router<Context>(trace ? withTrace(all) : all)
}
