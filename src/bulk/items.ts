import { content, redirected } from '../content/content.js'
import { blobSource, type ContentSource } from '../content/source.js'
import { httpError } from '../http/errors.js'
import { describe, type Handler, type HttpRequest } from '../http/exchange.js'
import { NDJSON_TYPE } from '../http/fields/ndjson-types.js'
import { errorResponses, fields, requestFields } from '../openapi/responses.js'
import { operation, parameter, response } from '../openapi/operation.js'
import { hasMethod, readOptions, value, type OptionTable } from '../runtime/options.js'
import type { Blobs } from '../stores/blobs.js'
import type { TaskEndpoints } from '../tasks/http/endpoints.js'
import { isFinalStatus } from '../engine/task.js'
import { itemSchema } from '../records/http.js'
import type { StoredReport } from '../records/stored-report.js'
import { deleteBlobs, blobBytes } from '../stores/blob-rules.js'
import type { Retry } from '../stores/calls.js'
import type { EndedTask, ExternalResource } from '../tasks/definition/external-resource.js'
import type { Spool } from '../records/spool.js'
import { isOnlyFailed, onlyParameter } from './operation.js'

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
    headers: fields('ETag', 'Accept-Ranges'),
  })
  return describe(serve, [operation('GET', {
    summary: 'Read the items of a batch that was written in the background',
    parameters: [parameter('path', 'id'), onlyParameter, requestFields.range],
    responses: {
      200: items,
      206: { ...items, description: 'A part of the items' },
      ...blobs.link && redirected,
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
  if (!isFinalStatus(task.status)) throw httpError('task_not_final', { headers: { 'retry-after': '1' } })
  // If the last run was killed, it has stored no report. The one before it may have.
  const last = task.status === 'completed' ? task.attempt : Math.max(task.attempt - MAX_RUNS, 0) + 1
  for (let run = task.attempt; run >= last; run--) {
    const key = reportKey(task.id, run, only)
    const source = await blobSource(blobs, key, { type: NDJSON_TYPE })
    if (source !== undefined) return source
  }
  throw httpError('not_found')
}

/** Number of last runs of a task whose reports are found and deleted. */
const MAX_RUNS = 10
const FAILED_ITEM = /^\{"index":\d+,"status":[45]/

function reportKey(taskId: string, run: number, only: 'all' | 'failed'): string {
  return `bulk-report/${taskId}/${run}/${only}`
}

function reportKeys({ id, attempt }: Pick<EndedTask, 'id' | 'attempt'>): readonly string[] {
  const runs = Array.from({ length: MAX_RUNS }, (_, back) => attempt - back).filter((run) => run > 0)
  return runs.flatMap((run) => [reportKey(id, run, 'all'), reportKey(id, run, 'failed')])
}

export function keepingReports(
  { blobs, external }: Pick<Spool, 'blobs' | 'external'>,
): Required<Pick<ExternalResource<never>, 'remove' | 'bytes'>> {
  return {
    async remove(blob, task) {
      await external.release(blob)
      await deleteBlobs(blobs, reportKeys(task))
    },
    async bytes(blob, task) {
      const sizes = await blobBytes(blobs, reportKeys(task))
      return sizes.reduce((total, size) => total + size, await external.bytes(blob, task))
    },
  }
}

/**
 * Stores the items of a run that ends: all of them, and the failed ones. Then deletes those of
 * earlier runs, so that a client that cancels and retries a task does not fill the blobs.
 */
export async function storeItems(
  stored: StoredReport, { blobs, retentionMs: ttlMs }: Spool,
  { taskId, run, retry }: { readonly taskId: string, readonly run: number, readonly retry: Retry },
): Promise<boolean> {
  if (!stored.isWhole) return false
  const [all, failed] = [reportKey(taskId, run, 'all'), reportKey(taskId, run, 'failed')]
  try {
    await retry(() => blobs.put(all, stored.bytes(), { ttlMs }))
    await retry(() => blobs.put(failed, failedLines(blobs, all), { ttlMs }))
  } catch (error) {
    stored.lose(error)
    return false
  }
  await deleteBlobs(blobs, reportKeys({ id: taskId, attempt: run - 1 }))
  return true
}

async function* failedLines(
  blobs: Blobs, all: string,
): AsyncGenerator<Uint8Array, void, undefined> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const piece of await blobs.open(all) ?? []) {
    const lines = (rest + decoder.decode(piece, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    const failed = lines.filter((line) => FAILED_ITEM.test(line))
    if (failed.length > 0) yield Buffer.from(`${failed.join('\n')}\n`)
  }
}
