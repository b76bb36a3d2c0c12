import { createTasks, defineTask, router, taskEndpoints } from 'longhaul'
import { bulkCreate } from 'longhaul/bulk'
import { memory } from 'longhaul/memory'
import { doWork, type Input } from '../../tasks/work.js'

// With the default of every option, because those are what users pay for.
const report = defineTask({ name: 'report', run: (input: Input) => doWork(input) })
const tasks = createTasks({ ...memory(), definitions: [report] })
const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })

/** Routes that each server of the gate has. */
export const handler = router({
  'POST /reports': submit(report),
  'GET|HEAD|DELETE /tasks/{id}': status,
  'POST /users/bulk': bulkCreate({
    repository: { createMany: (items: readonly unknown[]) => items.map((_, n) => ({ id: String(n) })) },
  }),
})
