import { createHash } from 'node:crypto'
import { content } from '../content/content.js'
import type { ContentSource } from '../content/source.js'
import { isFinalStatus } from '../engine/task.js'
import { httpError } from '../http/errors.js'
import { describe, type Handler, type HttpRequest } from '../http/exchange.js'
import { NDJSON_TYPE } from '../http/headers/ndjson-types.js'
import { errorResponses, responseHeaders, headerParameters } from '../openapi/responses.js'
import { operation, parameter, response } from '../openapi/operation.js'
import { itemSchema } from '../records/http.js'
import { reportGone } from '../records/stored-report.js'
import { findTail } from '../records/tails.js'
import { hasMethod, readOptions, value, type OptionTable } from '../runtime/options.js'
import { bytesBetween } from '../runtime/text.js'
import type { Blobs } from '../stores/blobs.js'
import { partBytes, partKeys, readParts, type PartList } from '../stores/parts.js'
import type { TaskEndpoints } from '../tasks/http/endpoints.js'
import { detailsOf } from '../tasks/record/details.js'
import { isOnlyFailed, onlyParameter } from './operation.js'
import type { BulkItem } from '../wire/report.js'
import { BULK_BLOBS } from './task.js'

/** Options of `bulkItems`. */
export interface BulkItemsOptions<C> {
  /** The endpoints that accept the batches. */
  readonly endpoints: TaskEndpoints<C>
  /** The blobs of the bulk tasks. */
  readonly blobs: Blobs
}

const ITEMS = {
  endpoints: value('what taskEndpoints returned', hasMethod('find'), { required: true }),
  blobs: value('the blobs of the bulk task', hasMethod('open'), { required: true }),
} satisfies OptionTable<BulkItemsOptions<never>>

/**
 * Creates a handler for GET and HEAD at `{status}/items`, below the status path of the endpoints.
 * It returns the items of a batch that was written in the background: NDJSON, one item on each
 * line, in the order of the request. `?only=failed` returns failed items only. Tasks that failed or
 * were cancelled have the items that were processed by then. Ranges and conditional requests work.
 *
 * Fails like the status resource for a task that is unknown or belongs to another owner, with
 * `task_not_final` (409) before the end, and with `not_found` if there is no report.
 * @example
 * import { createTasks, router, taskEndpoints } from 'longhaul'
 * import { bulkItems } from 'longhaul/bulk'
 * import { memory } from 'longhaul/memory'
 *
 * const { engine, store, blobs } = memory()
 * const tasks = createTasks({ engine, store, definitions: [] })
 * const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
 * export const handler = router({ '/tasks/{id}/items': bulkItems({ endpoints, blobs }) })
 * @throws {TypeError} An option is missing, not valid or unknown.
 */
export function bulkItems<C = unknown>(options: BulkItemsOptions<C>): Handler<C> {
  const { endpoints, blobs } = readOptions('bulkItems', options, ITEMS)
  const serve = content<C>((request) => findReport(endpoints, blobs, request))
  const items = response('The items, one on each line', {
    schema: { type: 'string', description: `Each line: ${JSON.stringify(itemSchema('index'))}` },
    mediaTypes: [NDJSON_TYPE],
    headers: responseHeaders('ETag', 'Accept-Ranges'),
  })
  return describe(serve, [operation('GET', {
    summary: 'Read the items of a batch that was written in the background',
    parameters: [parameter('path', 'id'), onlyParameter, headerParameters.range],
    responses: {
      200: items,
      206: { ...items, description: 'A part of the items' },
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
  const isFiltered = isOnlyFailed(request)
  const task = await endpoints.find(request, '/items')
  if (task === undefined) return undefined
  const { status, attempt } = task
  if (!isFinalStatus(status)) throw httpError('task_not_final', { headers: { 'retry-after': '1' } })
  const { external = '', parts = [] } = detailsOf(task)
  if (!external.startsWith(BULK_BLOBS)) throw httpError('not_found')
  const tail = status === 'completed' ? [] : await findTail(blobs, external, parts, attempt)
  return reportSource(blobs, external, [...parts, ...tail], isFiltered)
}

async function reportSource(
  blobs: Blobs, blob: string, list: PartList, isFiltered: boolean,
): Promise<ContentSource> {
  const keys = partKeys(blob, list)
  // The parts expire in their order.
  if (keys[0] === undefined || await blobs.stat(keys[0]) === undefined) throw httpError('not_found')
  const read = (start?: number) => readParts(blobs, keys, reportGone, start)
  const failed = () => failedLines(read())
  const version = createHash('sha256').update(JSON.stringify([blob, list, isFiltered]))
  return {
    type: NDJSON_TYPE, etag: `"${version.digest('base64url')}"`,
    size: isFiltered ? await sizeOf(failed()) : partBytes(list),
    open: (start, end) => (
      isFiltered ? bytesBetween(failed(), start, end) : bytesBetween(read(start), 0, end - start)
    ),
  }
}

async function sizeOf(source: AsyncIterable<Uint8Array>): Promise<number> {
  let size = 0
  for await (const piece of source) size += piece.byteLength
  return size
}

async function* failedLines(
  report: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array, void, undefined> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const piece of report) {
    const lines = (rest + decoder.decode(piece, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    const failed = lines.filter((line) => (JSON.parse(line) as BulkItem).status >= 400)
    if (failed.length > 0) yield Buffer.from(`${failed.join('\n')}\n`)
  }
}
