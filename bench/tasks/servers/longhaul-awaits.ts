import { setTimeout } from 'node:timers/promises'
import { createTasks, defineTask, router, taskEndpoints } from 'longhaul'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import { listen } from '../../frame/subject.js'
import { doWork, type Input } from '../work.js'

/** Work that awaits once, as most work does. */
const report = defineTask({
  name: 'report', maxPerOwner: Infinity,
  run: async (input: Input) => {
    await setTimeout(5)
    return doWork(input)
  },
})
const tasks = createTasks({ ...memory({ maxUnfinished: 100_000 }), definitions: [report], concurrency: 1000 })
const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })

listen(toNode(router({
  'POST /reports': endpoints.submit(report),
  'GET|HEAD|DELETE /tasks/{id}': endpoints.status,
})))
