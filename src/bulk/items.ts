import { content } from '../content/content.js'
import { blobSource, type ContentSource } from '../content/source.js'
import { httpError } from '../http/errors.js'
import { describe, type Handler, type HttpRequest } from '../http/exchange.js'
import { errorResponses, fields, requestFields } from '../openapi/responses.js'
import { operation, parameter, response } from '../openapi/operation.js'
import { checkNames } from '../runtime/option-names.js'
import type { Blobs } from '../stores/blobs.js'
import type { TaskEndpoints } from '../tasks/http/endpoints.js'
import { isFinalStatus } from '../engine/task.js'
import { isOnlyFailed } from './item-selection.js'
import { itemSchema, onlyParameter } from './operation.js'
import { MAX_RUNS, reportKey } from './stored-report.js'

const NDJSON_TYPE = 'application/x-ndjson'

/** Options of `bulkItems`. */
export interface BulkItemsOptions<C> {
  /** The endpoints that accept the batches. */
  readonly endpoints: TaskEndpoints<C>
  /** The blobs of the bulk tasks. */
  readonly blobs: Blobs
}

const ITEMS = { endpoints: 0, blobs: 0 } satisfies Record<keyof BulkItemsOptions<unknown>, 0>

/**
 * Creates a handler for GET and HEAD at `{status}/items`, below the status path of the endpoints.
 * It returns the items of a batch that was written in the background: NDJSON, one item on each
 * line, in the order of the request. `?only=failed` returns failed items only. Tasks that failed or
 * were cancelled have the items that were processed by then. Ranges, conditions and If-Range work,
 * so a long report can be resumed.
 *
 * Fails like the status resource for a task that is unknown or belongs to another owner, with
 * `task_not_final` (409) before the end, and with `not_found` if there is no report.
 *
 * @example
 * import { createTasks, router, taskEndpoints } from 'longhaul'
 * import { bulkItems } from 'longhaul/bulk'
 * import { memory } from 'longhaul/memory'
 *
 * const { engine, store, blobs } = memory()
 * const tasks = createTasks({ engine, store, definitions: [] })
 * const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
 * export const handler = router({ '/tasks/{id}/items': bulkItems({ endpoints, blobs }) })
 *
 * @throws {TypeError} An option is unknown.
 */
export function bulkItems<C = unknown>(options: BulkItemsOptions<C>): Handler<C> {
  checkNames('bulkItems', options, ITEMS)
  const { endpoints, blobs } = options
  const serve = content<C>((request) => findReport(endpoints, blobs, request))
  const items = response('The items, one a line', {
    schema: { type: 'string', description: `Each line: ${JSON.stringify(itemSchema)}` },
    mediaTypes: [NDJSON_TYPE],
    headers: fields('ETag', 'Accept-Ranges', 'Cache-Control'),
  })
  return describe(serve, [operation('GET', {
    summary: 'Read the items of a bulk that was done in the background',
    parameters: [parameter('path', 'id'), onlyParameter, requestFields.range],
    responses: {
      200: items,
      206: { ...items, description: 'A part of them' },
      ...errorResponses(
        'invalid_query', 'task_not_found', 'not_found', 'not_acceptable', 'task_not_final',
        'range_not_satisfiable',
      ),
    },
  })])
}

async function findReport<C>(
  endpoints: TaskEndpoints<C>, blobs: Blobs, request: HttpRequest<C>,
): Promise<ContentSource | undefined> {
  const only = isOnlyFailed(request) ? 'failed' : 'all'
  const task = await endpoints.find(request, '/items')
  if (task === undefined) return undefined
  if (!isFinalStatus(task.state)) throw httpError('task_not_final', { headers: { 'retry-after': '1' } })
  // If the last run was killed, it has stored no report. The one before it may have.
  const last = task.state === 'completed' ? task.attempt : Math.max(task.attempt - MAX_RUNS, 0) + 1
  for (let run = task.attempt; run >= last; run--) {
    const key = reportKey(task.id, run, only)
    const source = await blobSource(blobs, key, { type: NDJSON_TYPE })
    if (source !== undefined) return source
  }
  throw httpError('not_found')
}
