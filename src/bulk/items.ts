import { blobSource } from '../content/blob-source.js'
import { content } from '../content/content.js'
import type { ContentSource } from '../content/source.js'
import { httpError } from '../http/errors.js'
import { describe, type Handler, type HttpRequest } from '../http/exchange.js'
import { checkNames } from '../runtime/option-names.js'
import { errorResponses } from '../openapi/errors.js'
import { fields, requestFields } from '../openapi/fields.js'
import { operation, parameter, response } from '../openapi/operation.js'
import type { Blobs } from '../stores/blobs.js'
import { isFinal } from '../tasks/record/state.js'
import type { TaskEndpoints } from '../tasks/http/endpoints.js'
import { itemSchema, onlyParameter } from './operation.js'
import { onlyFailed } from './shown.js'
import { reportKey } from './task-report.js'

const TYPE = 'application/x-ndjson'

/** Whose items are shown, and where they lie. */
export interface BulkItemsOptions<C> {
  /**
   * Those that take the batches in. Mount the handler below their status path, at `{status}/items`.
   */
  readonly endpoints: TaskEndpoints<C>
  /** The blobs of the bulk tasks. */
  readonly blobs: Blobs
}

const KNOWN = { endpoints: 0, blobs: 0 } satisfies Record<keyof BulkItemsOptions<unknown>, 0>

/**
 * A handler for GET and HEAD at `{status}/items`: the items of a bulk that was done in the
 * background, as NDJSON, one a line, in the order of the request; `?only=failed` leaves out those
 * that went well. Also of a task that failed or was cancelled: what it had come to by then. Ranges,
 * conditions and If-Range work, so a long report can be resumed.
 *
 * Fails with what the status resource says of a task that is unknown or somebody else's,
 * `task_not_final` (409) before the end, and `not_found` where there is no report: the task is not
 * a bulk, or it was too long ago.
 */
export function bulkItems<C = unknown>(options: BulkItemsOptions<C>): Handler<C> {
  checkNames('bulkItems', options, KNOWN)
  const { endpoints, blobs } = options
  const serve = content<C>((request) => find(endpoints, blobs, request))
  const schema = { type: 'string', description: `Each line: ${JSON.stringify(itemSchema)}` }
  const items = response('The items, one a line', { schema, mediaTypes: [TYPE], headers: fields('ETag', 'Accept-Ranges', 'Cache-Control') })
  return describe(serve, [operation('GET', {
    summary: 'Read the items of a bulk that was done in the background',
    parameters: [parameter('path', 'id'), onlyParameter, requestFields.range],
    responses: { 200: items, 206: { ...items, description: 'A part of them' }, ...errorResponses('invalid_query', 'task_not_found', 'not_found', 'not_acceptable', 'task_not_final', 'range_not_satisfiable') },
  })])
}

async function find<C>(endpoints: TaskEndpoints<C>, blobs: Blobs, request: HttpRequest<C>): Promise<ContentSource | undefined> {
  const only = onlyFailed(request) ? 'failed' : 'all'
  const task = await endpoints.find(request, '/items')
  if (task === undefined) return undefined
  const source = await blobSource(blobs, reportKey(task.id, only), { type: TYPE })
  if (!isFinal(task.state)) throw httpError('task_not_final', { headers: { 'retry-after': '1' } })
  if (source === undefined) throw httpError('not_found')
  return source
}
