import { createTasks, defineTask, router, taskEndpoints } from 'longhaul'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import { listen } from '../../frame/subject.js'
import { doWork, WORK_MS, type Input } from '../work.js'

const report = defineTask({ name: 'report', run: (input: Input) => doWork(input) })
// The peers start all work at once.
const tasks = createTasks({ ...memory(), definitions: [report], concurrency: WORK_MS > 0 ? 1000 : 10 })
const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })

listen(toNode(router({
  'POST /reports': endpoints.submit(report),
  'GET|HEAD|DELETE /tasks/{id}': endpoints.status,
})))
