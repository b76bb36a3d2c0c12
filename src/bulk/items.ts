import type { Handler } from '../http/exchange.js'
import { recordItems, type RecordItemsOptions } from '../records/items.js'

/**
 * Creates a handler for GET and HEAD at `{status}/items`, below the status path of the endpoints.
 * It returns the items of a batch that was written in the background: NDJSON, one item on each
 * line, in the order of the request. `?only=failed` returns failed items only, `?only=succeeded`
 * the others. Tasks that failed or were cancelled have the items that were processed by then.
 * Ranges and conditional requests work. Also serves the items of uploads, as `uploadItems` does.
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
export function bulkItems<C = unknown>(options: RecordItemsOptions<C>): Handler<C> {
  return recordItems('bulkItems', options, 'index')
}
