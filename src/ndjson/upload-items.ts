import type { Handler } from '../http/exchange.js'
import { recordItems, type RecordItemsOptions } from '../records/items.js'

/**
 * Creates a handler for GET and HEAD at `{status}/items`, below the status path of the endpoints.
 * It returns the outcomes of the lines of an upload with `keepItems` of `background`: NDJSON, one
 * item `{ line, status, id?, result?, error? }` on each line, in their order. `?only=succeeded`
 * returns the lines that were written, `?only=failed` the others. Tasks that failed or were
 * cancelled have the lines that were processed by then. Ranges and conditional requests work. Serves
 * the items of bulk requests, as `bulkItems` of `longhaul/bulk` does.
 *
 * Fails like the status resource for a task that is unknown or belongs to another owner, with
 * `task_not_final` (409) before the end, and with `not_found` if there is no report.
 * @example
 * import { createTasks, router, taskEndpoints } from 'longhaul'
 * import { memory } from 'longhaul/memory'
 * import { ndjsonUpload, uploadItems } from 'longhaul/ndjson'
 *
 * const { engine, store, blobs } = memory()
 * const upload = ndjsonUpload({
 *   write: (users) => users.map(() => ({ status: 200, result: { ok: true } })),
 *   maxLines: 50_000,
 *   background: { name: 'users', blobs, keepItems: true },
 * })
 * const tasks = createTasks({ engine, store, blobs, definitions: [upload.task] })
 * const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
 * export const handler = router({
 *   'POST /users': upload.handler(endpoints),
 *   '/tasks/{id}': endpoints.status,
 *   '/tasks/{id}/items': uploadItems({ endpoints, blobs }),
 * })
 * @throws {TypeError} An option is missing, not valid or unknown.
 */
export function uploadItems<C = unknown>(options: RecordItemsOptions<C>): Handler<C> {
  return recordItems('uploadItems', options, 'line')
}
