import { createTasks, defineTask, router, taskEndpoints, type Handler } from 'longhaul'
import type { Store } from 'longhaul/stores'
import { memory } from 'longhaul/memory'
import { doWork, type Input } from '../tasks/work.js'

export const TOKEN = 'kW3x9bT1q8Zr5LmN0vYc'

/** The accept flow, as bench/tasks measures it. */
export function flow(): { readonly handler: Handler, readonly store: Store } {
  const parts = memory()
  const report = defineTask({ name: 'report', run: (input: Input) => doWork(input) })
  const endpoints = taskEndpoints(createTasks({ ...parts, definitions: [report] }), { statusPath: '/tasks/{id}', owner: 'anyone' })
  return { handler: router({ 'POST /reports': endpoints.submit(report), 'GET|HEAD|DELETE /tasks/{id}': endpoints.status }), store: parts.store }
}
