import type { Handler, HttpRequest, HttpResponse } from '../../http/exchange.js'
import type { KeptResponse, OnceWork } from '../../idempotency/once.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import type { AnyTaskDefinition, Definitions } from '../definition/define.js'
import type { TaskSnapshot } from '../record/snapshot.js'
import type { Tasks } from '../tasks.js'
import { createRedeliver, createRetry } from './changes.js'
import { createFiles } from './files.js'
import { createList, createOperatorList, type OperatorListOptions } from './lists.js'
import { createOverview, type OperatorOverviewOptions } from './overview.js'
import { findOwn, readSettings, type TaskEndpointsOptions } from './settings.js'
import { spoolBody, type ArrivedBody, type ArrivingBody, type BodyStore } from './spool-body.js'
import { createStatus } from './status.js'
import { acceptRead, respondOnce, createSubmit } from './submit.js'
import type { ReadWork, Select, SubmitEndpoint, SubmitEndpointOptions } from './submit-options.js'

export type { KeptResponse }

/** The handlers of the 202 flow, and the way in for handlers of your own. */
export interface TaskEndpoints<C = unknown, D extends Definitions = Definitions> {
  /**
   * Creates a handler for POST. The body is the input of one kind of work, or `select` finds both
   * in it. `Prefer: respond-async` gets a 202 at once; without it the work is done first (SPEC
   * 4.6).
   *
   * @example
   * endpoints.submit(report, { respond: 'always' })
   */
  readonly submit: SubmitEndpoint<C, D>
  /**
   * Takes in work for your own handler, and responds as `submit` does to `Prefer:
   * respond-async`, Idempotency-Key and `wait` included. `read` is called once the head of the
   * request is found to be good. Rejects with what `read` rejects with, and as `submit` does.
   */
  accept(
    request: HttpRequest<C>, definition: AnyTaskDefinition, read: () => MaybePromise<ReadWork>,
  ): Promise<HttpResponse>
  /**
   * Responses directly, for your own handler, and once for each Idempotency-Key. A retry with
   * the same `body` (compared as JSON) gets the same response with `Idempotent-Replayed:
   * true`, and waits for it while the first request is under way. Another body is a 422. `work`
   * must not stop when the client disconnects.
   *
   * The outcome of `work` is stored, errors too. An error that says that nothing was done (400,
   * 413, 429, 503 with `Retry-After` and the like) releases the key, unless `work` has called the
   * function that it is given, which says that it had an effect.
   */
  respondOnce(
    request: HttpRequest<C>, body: unknown, work: OnceWork<KeptResponse>,
  ): Promise<HttpResponse>
  /**
   * Writes the body of a request to a spool, and counts its bytes for `maxBytesPerOwner`.
   *
   * @internal
   */
  spool(request: HttpRequest<C>, spool: BodyStore, body: ArrivingBody): Promise<ArrivedBody>
  /**
   * Returns the owner and the context that a task of this request would have, for work that is done
   * directly.
   *
   * @internal
   * @throws {HttpError} 401 `unauthorized`: `owner` is `'principal'`, and there is none
   */
  originOf(request: HttpRequest<C>): { readonly owner: string | undefined, readonly context: unknown }
  /**
   * The task that a request below its status path is for, such as `{status}/items` with `below`
   * `/items`: who may not see the task is told that there is none, in the very words of the status
   * resource. `undefined` when the path is not such a path.
   */
  find(request: HttpRequest<C>, below: string): MaybePromise<TaskSnapshot | undefined>
  /** The tasks that these are the endpoints of. */
  readonly tasks: Tasks<D>
  /** Status resource: GET, HEAD, and DELETE, which cancels, or deletes with `remove: 'forget'`. */
  readonly status: Handler<C>
  /**
   * The handler of POST `{status}/retry`, such as `/tasks/{id}/retry`. A failed or cancelled task
   * runs again, under the same id and with its old input, and the response is a 202 as for `submit`.
   * `Prefer: wait=N` and Idempotency-Key work as there. The body is empty or `{}`.
   *
   * Errors: 409 `task_not_final` and `task_already_completed`, 410 `gone` if the input is no longer
   * stored, 429 `too_many_tasks`, and the response of the status resource for an unknown task.
   *
   * @example
   * router({ 'POST /tasks/{id}/retry': endpoints.retry })
   */
  readonly retry: Handler<C>
  /**
   * The handler of POST `{status}/callback`, such as `/tasks/{id}/callback`. The callback of a final
   * task is sent again, and the response is a 202 with the body of the status resource. The body is
   * empty or `{}`.
   *
   * Errors: 409 `task_not_final`, `no_callback`, and `callback_pending` while a delivery is under
   * way.
   *
   * @example
   * router({ 'POST /tasks/{id}/callback': endpoints.callback })
   */
  readonly callback: Handler<C>
  /**
   * The handler of result files: GET and HEAD of `{status}/files/{name}`, for the owner of the
   * task. Serves ranges, conditions and `Repr-Digest`, as an attachment. Other paths are passed on.
   * A task that is unknown, someone else's or not completed, and an unknown name, are all 404
   * `file_not_found`.
   */
  readonly files: Handler<C>
  /**
   * The handler of the requester's own tasks: GET and HEAD, at a path of your choice. The response is
   * `{ items, next? }`, the newest task first. Items are bodies of the status resource, and `next`
   * is the path of the next page, as in `Link`.
   *
   * Parameters of the query: `status` and `task` (one or several, separated by commas), `from` and
   * `to` (RFC 3339), `order` (`newest` or `oldest`), `limit` (1 to 200, default 50) and `cursor`.
   * `status` takes the words of the format. In `taskFormat`, `processing` includes tasks that are
   * scheduled or queued.
   *
   * A page may have fewer items than `limit` although there is a next one: it ends after 4 MiB.
   * Errors: 400 `invalid_query` and `invalid_cursor`, 401 `unauthorized` for a client without an
   * owner.
   *
   * @example
   * router({ 'GET /tasks': endpoints.list, 'GET|HEAD|DELETE /tasks/{id}': endpoints.status })
   *
   * @throws {TypeError} When it is read: `owner` is `'anyone'`.
   */
  readonly list: Handler<C>
  /**
   * Creates the handler of a list of all owners' tasks, for operators. It differs from `list` in
   * that each item shows its `owner`, if it has one, and the query may name an `owner`.
   *
   * @example
   * const admins = authorize({ allow: ({ subject }) => subject === 'root', reason: 'needs_admin' })
   * router({ 'GET /admin/tasks': endpoints.operatorList({ authorize: admins }) })
   *
   * @throws {TypeError} `authorize` is missing.
   */
  operatorList(options: OperatorListOptions<C>): Handler<C>
  /**
   * Creates the handler of an overview for operators: GET and HEAD. The response is `{ counts,
   * oldestQueued?, callbacks }`.
   *
   * - `counts` has a property `{ count, more }` for each status of `tasks.list`. It counts up to 1000
   * tasks of each, so that its cost has a limit.
   * - `oldestQueued` is the task that has waited longest for a run.
   * - `callbacks` is `{ examined, failed }`: the tasks whose callback has failed, among the newest
   * 200 final ones.
   *
   * @example
   * const admins = authorize({ allow: ({ subject }) => subject === 'root', reason: 'needs_admin' })
   * router({ 'GET /admin/overview': endpoints.operatorOverview({ authorize: admins }) })
   *
   * @throws {TypeError} `authorize` is missing.
   */
  operatorOverview(options: OperatorOverviewOptions<C>): Handler<C>
}

/**
 * Creates the handlers of the 202 flow. Mount `status` where `statusPath` says.
 *
 * `submit` accepts only definitions that `createTasks` was given. Write the type of the context at
 * the parameter of `owner`: `(request: HttpRequest<HostContext>) => …`. With a type argument, as in
 * `taskEndpoints<HostContext>(…)`, the compiler accepts any definition, and one that is not
 * registered throws at start.
 *
 * @example
 * const { submit, status } = taskEndpoints(tasks, {
 *   statusPath: '/tasks/{id}',
 *   owner: 'principal',
 * })
 *
 * @throws {TypeError} `owner` is missing, `statusPath` has no `{id}`, or an option makes no sense.
 */
export function taskEndpoints<C = unknown, D extends Definitions = Definitions>(
  tasks: Tasks<D>, options: TaskEndpointsOptions<C>,
): TaskEndpoints<C, D> {
  const settings = readSettings(tasks, options)
  return {
    submit: (
      what: AnyTaskDefinition | Select<C>, submitOptions?: SubmitEndpointOptions<C>,
    ) => createSubmit(settings, what, submitOptions),
    accept: (request, definition, read) => acceptRead(settings, request, definition, read),
    respondOnce: (request, body, work) => respondOnce(settings, request, body, work),
    spool: (request, spool, body) => spoolBody(settings, request, spool, body),
    originOf: (request) => ({
      owner: settings.requester(request).owner, context: settings.context?.(request),
    }),
    find(request, below) {
      const id = settings.path.idBelow(request, below)
      return id === undefined ? undefined : findOwn(settings, id, settings.requester(request).owner)
    },
    tasks,
    status: createStatus(settings),
    retry: createRetry(settings),
    callback: createRedeliver(settings),
    files: createFiles(settings),
    // Created if it is read, because it requires owners.
    get list() {
      if (options.owner === 'anyone') {
        throw new TypeError("taskEndpoints: there is no list with owner: 'anyone', because it would show "
          + 'the ids of all tasks to everybody. Let owner be a function, or use operatorList')
      }
      return createList(settings, settings.list?.also)
    },
    operatorList: (operatorOptions) => createOperatorList(settings, operatorOptions),
    operatorOverview: (operatorOptions) => createOverview(settings, operatorOptions),
  }
}
