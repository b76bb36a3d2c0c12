import type { Handler, HttpRequest, HttpResponse } from '../../http/exchange.js'
import type { Preferences } from '../../http/headers/prefer.js'
import { acknowledged } from '../../http/respond.js'
import type { KeptResponse, OnceWork } from '../../idempotency/once.js'
import type { MaybePromise } from '../../runtime/maybe-promise.js'
import { namedOwner, type NamedOwner } from '../../runtime/names.js'
import type { AnyTaskDefinition, Definitions } from '../definition/define.js'
import type { Tasks } from '../tasks.js'
import { readHead, type RequestHead } from './accept.js'
import { createRedeliver, createRetry } from './changes.js'
import { createFiles } from './files.js'
import { createInput } from './input.js'
import { createList } from './lists.js'
import {
  findFor, readSettings, type EndpointSettings, type TaskEndpointsOptions,
  type ReadWork, type Select,
  type SubmitEndpoint, type SubmitEndpointOptions,
} from './settings.js'
import { spoolBody, type ArrivedBody, type ArrivingBody, type BodyStore } from './spool-body.js'
import { createStatus } from './status.js'
import { acceptRead, respondOnce, createSubmit } from './submit.js'
import type { StoredTask } from '../../engine/task.js'

export type { KeptResponse }

/** A request whose headers were read. Its functions respond as those of `TaskEndpoints`. */
export interface OpenRequest extends NamedOwner, Pick<RequestHead<unknown>, 'key'> {
  /** Returns the context that a task of the request would have. */
  context(): unknown
  accept(definition: AnyTaskDefinition, read: () => MaybePromise<ReadWork>): Promise<HttpResponse>
  respondOnce(body: unknown, work: OnceWork<KeptResponse>): Promise<HttpResponse>
  /** Writes the body to blobs, and counts its bytes for `maxBytesPerOwner`. */
  spool(spool: BodyStore, body: ArrivingBody): Promise<ArrivedBody>
}

/** The handlers of the 202 flow, and functions for your own handlers. */
export interface TaskEndpoints<C = unknown, D extends Definitions = Definitions> {
  /**
   * Creates a handler for POST. The body is the input of one kind of work, or `select` finds both in
   * it. `Prefer: respond-async` gets a 202 at once; without it the work is done first.
   *
   * @example
   * endpoints.submit(report, { respond: 'always' })
   */
  readonly submit: SubmitEndpoint<C, D>
  /**
   * Accepts work for your own handler, and responds as `submit` does to `Prefer: respond-async`,
   * Idempotency-Key and `wait` included. Calls `read` once the headers are valid. `read` returns the
   * `input` of the task and the `body`, by which requests with the same key are compared. Rejects as
   * `read` and `submit` do.
   *
   * @example
   * export const handler: Handler = (request) => endpoints.accept(request, report, () => {
   *   const input = { year: Number(request.query.get('year')) }
   *   return { input, body: input }
   * })
   */
  accept(
    request: HttpRequest<C>, definition: AnyTaskDefinition, read: () => MaybePromise<ReadWork>,
  ): Promise<HttpResponse>
  /**
   * Responds synchronously, for your own handler, and once for each Idempotency-Key. A retry with the
   * same `body` (compared as JSON) waits for the same response, and gets it with
   * `Idempotent-Replayed: true`. Another body gets a 422. `work` must not stop when the client
   * disconnects. Its outcome is stored, errors too. An error without an effect (400, 413, 429, 503
   * with `Retry-After` and the like) releases the key, unless `work` has called its argument.
   */
  respondOnce(
    request: HttpRequest<C>, body: unknown, work: OnceWork<KeptResponse>,
  ): Promise<HttpResponse>
  /**
   * Finds the owner of a request and reads its key, once. Throws 401 and 400.
   * @internal
   */
  open(request: HttpRequest<C>, prefer: Preferences): OpenRequest
  /**
   * Returns the task of a request below its status path, such as `{status}/items` with `below`
   * `/items`; `undefined` for other paths. Throws the 404 of the status resource.
   */
  find(request: HttpRequest<C>, below: string): MaybePromise<StoredTask | undefined>
  readonly tasks: Tasks<D>
  /** Status resource: GET, HEAD, and DELETE, which cancels, or deletes with `remove: 'forget'`. */
  readonly status: Handler<C>
  /**
   * Handler of POST `{status}/retry`, such as `/tasks/{id}/retry`. Runs a failed or cancelled task
   * again, under the same id and with its old input. The response is a 202 as for `submit`;
   * `Prefer: wait=N` and Idempotency-Key work as there. The body is empty or `{}`.
   *
   * Errors: 409 `task_not_final` and `task_already_completed`, 410 `gone` if the input is no longer
   * stored, 429 `too_many_tasks`, and the 404 of the status resource.
   *
   * @example
   * router({ 'POST /tasks/{id}/retry': endpoints.retry })
   */
  readonly retry: Handler<C>
  /**
   * Handler of POST `{status}/callback`, such as `/tasks/{id}/callback`. Sends the callback of a final
   * task again. The response is a 202 with the body of the status resource. The body is empty or `{}`.
   * Errors: 409 `task_not_final`, `no_callback`, and `callback_pending` during a delivery.
   *
   * @example
   * router({ 'POST /tasks/{id}/callback': endpoints.callback })
   */
  readonly callback: Handler<C>
  /**
   * Handler of POST `{status}/input`, such as `/tasks/{id}/input`. The body has answers by the keys of the
   * questions: `{ "approve": { "send": true } }`. All are stored, or none. Once all questions have an answer,
   * the task runs again. The response is a 200 with the body of the status resource.
   *
   * A repetition with equal answers gets a 200, so no Idempotency-Key is needed. Of two requests with
   * different answers at the same time one is stored.
   *
   * Errors: 400 `invalid_input` with the place in each answer, 409 `already_answered`, `input_timed_out` and
   * `task_already_final`, 422 `unknown_input`, and the 404 of the status resource.
   *
   * @example
   * router({ 'POST /tasks/{id}/input': endpoints.input })
   */
  readonly input: Handler<C>
  /**
   * Handler of result files: GET and HEAD of `{status}/files/{name}`, for the owner of the task.
   * Serves ranges, conditions and `Repr-Digest`, as an attachment. Passes other paths on. A task that
   * is unknown, another owner's or not completed, and an unknown name, get a 404 `file_not_found`.
   */
  readonly files: Handler<C>
  /**
   * Handler of the requester's own tasks: GET and HEAD, at a path of your choice. The response is
   * `{ items, next? }`, the newest task first. Items are bodies of the status resource, and `next` is
   * the path of the next page, as in `Link`.
   *
   * Parameters of the query: `status` and `task` (one or several, separated by commas), `from` and
   * `to` (RFC 3339), `order` (`newest` or `oldest`), `limit` (1 to 200, default 50) and `cursor`.
   * `status` takes the words of the format. In `taskFormat`, `processing` includes tasks that are
   * scheduled or queued, and `input_required` are those that wait for an answer.
   *
   * A page ends after 4 MiB, so it may have fewer items than `limit` although there is a next one.
   * Errors: 400 `invalid_query` and `invalid_cursor`, 401 `unauthorized` without an owner.
   *
   * @example
   * router({ 'GET /tasks': endpoints.list, 'GET|HEAD|DELETE /tasks/{id}': endpoints.status })
   *
   * @throws {TypeError} When it is read: `owner` is `'anyone'`.
   */
  readonly list: Handler<C>
}

/**
 * Creates the handlers of the 202 flow. Mount `status` where `statusPath` says.
 *
 * `submit` accepts only definitions of `createTasks`. Write the type of the context at the
 * parameter of `owner`: `(request: HttpRequest<HostContext>) => …`. With a type argument, as in
 * `taskEndpoints<HostContext>(…)`, a definition that is not registered compiles, and throws at
 * start.
 *
 * @example
 * const { submit, status } = taskEndpoints(tasks, {
 *   statusPath: '/tasks/{id}',
 *   owner: 'principal',
 * })
 *
 * @throws {TypeError} `owner` is missing, `statusPath` has no `{id}`, or an option is not valid.
 */
export function taskEndpoints<C = unknown, D extends Definitions = Definitions>(
  tasks: Tasks<D>, options: TaskEndpointsOptions<C>,
): TaskEndpoints<C, D> {
  return createEndpoints(tasks, readSettings(tasks, options))
}

/** Creates the handlers of owners or, if the settings have `access`, those of operators. */
export function createEndpoints<C, D extends Definitions>(
  tasks: Tasks<D>, settings: EndpointSettings<C>,
): TaskEndpoints<C, D> {
  return {
    submit: (
      what: AnyTaskDefinition | Select<C>, submitOptions?: SubmitEndpointOptions<C>,
    ) => createSubmit(settings, what, submitOptions),
    accept: (request, definition, read) => acknowledged(request, () => (
      acceptRead(settings, readHead(settings, request), definition, read)
    )),
    respondOnce: (request, body, work) => acknowledged(request, async () => (
      // Without a key, the work of an anonymous client is done too.
      request.headers['idempotency-key'] === undefined
        ? (await work(() => undefined)).response
        : respondOnce(settings, readHead(settings, request), body, work)
    )),
    open(request, prefer) {
      const head = readHead(settings, request, prefer)
      const { owner, key } = head
      return {
        ...namedOwner(owner), key,
        context: () => settings.context?.(request),
        accept: (definition, read) => acceptRead(settings, head, definition, read),
        respondOnce: (body, work) => respondOnce(settings, head, body, work),
        spool: (spool, body) => spoolBody(settings, head, spool, body),
      }
    },
    find(request, below) {
      const id = settings.path.idBelow(request, below)
      return id === undefined ? undefined : findFor(settings, request, id)
    },
    tasks,
    status: createStatus(settings),
    retry: createRetry(settings),
    callback: createRedeliver(settings),
    input: createInput(settings),
    files: createFiles(settings),
    // Created if it is read, because it requires owners.
    get list() {
      if (settings.owner === 'anyone') {
        throw new TypeError("taskEndpoints: there is no list with owner: 'anyone', because it would show "
          + 'the ids of all tasks to everybody. Let owner be a function, or use operatorEndpoints of longhaul/operators')
      }
      return createList(settings, settings.list?.also)
    },
  }
}
