import { describe, type Handler, type HttpRequest, type HttpResponse } from '../http/exchange.js'
import { acknowledged, refuseIdempotencyKey } from '../http/respond.js'
import { parsePrefer } from '../http/fields/prefer.js'
import type { TaskEndpoints } from '../tasks/http/endpoints.js'
import { serviceOf } from '../tasks/tasks.js'
import { RequestCall, type BulkCall } from './bulk-run.js'
import { selectedItems, type ItemSelection } from './item-selection.js'
import { bulkOperation } from './operation.js'
import type { BulkBackgroundOptions } from './options.js'
import { readDirect, type DirectBody } from './read-direct.js'
import { checkHead } from './request-body.js'
import { respondDirect } from './respond-direct.js'
import type { BulkSettings } from './settings.js'
import { spooledBulk, type BulkTask, type SpooledBulk } from './task.js'

/**
 * A bulk endpoint that clients may ask to work in the background. Returned by `bulkCreate` and
 * `bulkUpdate`.
 */
export interface BackgroundBulk {
  /** Writes batches in the background. Pass it to `createTasks` in `definitions`. */
  readonly task: BulkTask
  /**
   * Creates the handler.
   *
   * @param endpoints - the endpoints of the tasks that `task` is defined in
   * @throws {TypeError} `task` is not among the definitions of these tasks, or their
   * `maxResultBytes` is too small for `maxInlineBytes`.
   */
  handler<C>(endpoints: TaskEndpoints<C>): Handler<C>
}

/** Returns the handler of a bulk endpoint, or with `background` its two parts. */
export function bulkEndpoint<T>(
  caller: string, settings: BulkSettings<T>, background: BulkBackgroundOptions | undefined,
): Handler | BackgroundBulk {
  if (background === undefined) return bulkHandler(settings)
  const { resume, writer, transaction } = settings
  if (resume !== undefined && writer.many === undefined && transaction === undefined) {
    throw new TypeError(`${caller}: resume needs a repository with createMany or updateMany, or an`
      + ' atomic batch, because single writes of many items have no common position')
  }
  const spooled = spooledBulk(caller, settings, background)
  return {
    task: spooled.task,
    handler<C>(endpoints: TaskEndpoints<C>): Handler<C> {
      checkTasks(caller, spooled, endpoints)
      return bulkHandler(settings, { endpoints, spooled })
    },
  }
}

interface Background<C> {
  readonly endpoints: TaskEndpoints<C>
  readonly spooled: SpooledBulk
}

function checkTasks<C>(
  caller: string, { task, maxInlineBytes }: SpooledBulk, endpoints: TaskEndpoints<C>,
): void {
  const tasks = endpoints?.tasks
  if (!tasks) throw new TypeError(`${caller}: handler needs what taskEndpoints returned`)
  if (tasks.definition(task.name) !== task) {
    throw new TypeError(`${caller}: the task ${task.name} is not among the definitions`
      + ' of createTasks; add it there')
  }
  const { maxResultBytes } = serviceOf(tasks, caller)
  if (maxInlineBytes + 1024 <= maxResultBytes) return
  throw new TypeError(`${caller}: background.maxInlineBytes must be 1024 or more below`
    + ` maxResultBytes of createTasks, which is ${maxResultBytes}`)
}

function bulkHandler<T, C>(settings: BulkSettings<T>, background?: Background<C>): Handler<C> {
  const handler = (request: HttpRequest<C>): Promise<HttpResponse> | undefined => {
    if (request.method !== settings.method) return undefined
    if (background) return acknowledged(request, () => respondTo(settings, request, background))
    refuseIdempotencyKey(request)
    checkHead(settings, request)
    const selection = selectedItems(request)
    return readDirect(settings, request, {
      work: (body) => respond(settings, request, body, selection, new RequestCall(request)),
      spool: undefined,
    })
  }
  return describe(handler, [bulkOperation(settings, background !== undefined)])
}

/** Responds where the client may ask for work in the background. */
async function respondTo<T, C>(
  settings: BulkSettings<T>, request: HttpRequest<C>, { endpoints, spooled }: Background<C>,
): Promise<HttpResponse> {
  checkHead(settings, request)
  const selection = selectedItems(request)
  const spool = (bytes?: AsyncIterable<Uint8Array>) => endpoints.accept(
    request, spooled.task, () => spooled.spool(endpoints, request, selection, bytes),
  )
  const { prefer, 'idempotency-key': key } = request.headers
  if (prefer !== undefined && parsePrefer(prefer).respondAsync) return spool()
  const origin = endpoints.originOf(request)
  const work = key === undefined
    ? (body: DirectBody) => (
      respond(settings, request, body, selection, new RequestCall(request, origin))
    )
    : (body: DirectBody) => respondOnce(settings, request, endpoints, body, selection, origin)
  return readDirect(settings, request, { work, spool })
}

async function respond<T>(
  settings: BulkSettings<T>, request: HttpRequest, body: DirectBody, selection: ItemSelection,
  call: BulkCall,
): Promise<HttpResponse> {
  const { response } = await respondDirect(settings, request, body, selection, call)
  return response
}

/**
 * Answers a request with an Idempotency-Key. The work continues if the client disconnects, because
 * a retry may be waiting for its answer.
 */
function respondOnce<T, C>(
  settings: BulkSettings<T>, request: HttpRequest<C>, endpoints: TaskEndpoints<C>,
  body: DirectBody, selection: ItemSelection, origin: Pick<BulkCall, 'owner' | 'context'>,
): Promise<HttpResponse> {
  return endpoints.respondOnce(request, body.identity(), async (began) => {
    const call = { ...origin, signal: new AbortController().signal }
    const answer = await respondDirect(settings, request, body, selection, call)
    began()
    return { response: answer.response, short: JSON.stringify({ summary: answer.summary }) }
  })
}
