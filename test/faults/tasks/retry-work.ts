import { createTasks, defineTask, httpError, router } from 'longhaul'
import { operatorEndpoints, retryTasks } from 'longhaul/operators'
import { openDatabase } from '../../servers/open-database.js'

/**
 * Tasks that always fail, in the pool `default`, and those that retry them, in the pool `operators`.
 *
 * @param onRun - called with the id of each run of a task that fails
 */
export function openRetrying(
  url: string | undefined,
  name: string,
  work: readonly string[],
  onRun: (id: string) => void = () => undefined,
) {
  const { parts, close } = openDatabase(url, { name, leaseMs: 2000 })
  const report = defineTask({
    name: 'report',
    run: (_input: object, { taskId = '' }) => {
      onRun(taskId)
      throw httpError('conflict')
    },
  })
  const slow = defineTask({
    name: 'slow',
    run: (_input: object, { signal }) =>
      new Promise((_, reject) => {
        signal.addEventListener('abort', () => {
          reject(signal.reason as Error)
        })
      }),
  })
  const retries = retryTasks({ pool: 'operators' })
  const tasks = createTasks({
    ...parts,
    definitions: [report, slow, retries],
    pools: { operators: { concurrency: 1 } },
    worker: url === undefined || work,
    onError: () => undefined,
  })
  const operators = operatorEndpoints(tasks, {
    statusPath: '/admin/tasks/{id}',
    operator: ({ context }) => context.user?.role === 'admin',
    remove: 'forget',
    retries,
  })
  const site = router({
    'GET|HEAD /admin/tasks': operators.list,
    'GET /admin/overview': operators.overview,
    'POST /admin/tasks/retry': operators.retryMany,
    'GET|HEAD|DELETE /admin/tasks/{id}': operators.status,
    'POST /admin/tasks/{id}/retry': operators.retry,
    'POST /admin/tasks/{id}/callback': operators.callback,
    'GET|HEAD /admin/tasks/{id}/files/{name}': operators.files,
  })
  return { tasks, report, slow, site, close }
}
