// One task that runs as long as there are watchers. Each `tick` from the parent is one change of it.
import { createServer } from 'node:http'
import { createTasks, defineTask, router, taskEndpoints, type TaskContext } from 'longhaul'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import { settledHeap } from '../frame/heap.js'
import { subject } from '../frame/subject.js'

let context: TaskContext | undefined
let ticks = 0
let asked = false
const parts = memory()
const forever = defineTask({
  name: 'forever',
  timeoutMs: 3_600_000,
  run: (_: unknown, given: TaskContext) => {
    context = given
    // Progress is written at intervals. The delay of a change starts with the write.
    void parts.engine.watch(String(given.taskId), () => {
      if (asked) process.send?.({ at: performance.timeOrigin + performance.now() })
      asked = false
    })
    return new Promise<{ message: string }>((resolve) => { given.signal.addEventListener('abort', () => { resolve({ message: 'over' }) }) })
  },
})
const tasks = createTasks({ ...parts, definitions: [forever], maxWaiters: 100_000, maxWaitersPerOwner: 100_000 })
const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone', maxWaitSeconds: 600 })

process.on('message', (message) => {
  if (message === 'tick') {
    asked = true
    context?.progress(++ticks)
  } else if (message === 'held') void settledHeap().then((heap) => process.send?.({ heap, rss: process.memoryUsage().rss }))
})
subject(createServer({ requestTimeout: 0 }, toNode(router({ 'POST /tasks': endpoints.submit(forever), 'GET /tasks/{id}': endpoints.status }))))
