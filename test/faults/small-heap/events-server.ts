// A server of one task with a large result and little memory, as a child process: it tells its port
// and the task's path. The task ends with `go`.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createTasks, defineTask, router, taskEndpoints } from 'longhaul'
import { memory } from 'longhaul/memory'
import { attach } from 'longhaul/node'
import { coreOf } from '../../../src/tasks/tasks.js'

let end: (text: string) => void
const result = new Promise<string>((resolve) => { end = resolve })
const large = defineTask({ name: 'large', run: async (_, { progress }) => {
  progress(1, 2)
  return { message: 'done', text: await result }
} })
const tasks = createTasks({ ...memory(), definitions: [large], maxWaitersPerOwner: 1000 })
const { status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone', maxWaitSeconds: 600 })
const server = createServer({ requestTimeout: 0 })
attach(server, router({ 'GET /tasks/{id}': status }))
const { taskId: id } = await tasks.submit(large, 1)
server.listen(0, '127.0.0.1', () => {
  process.send?.({ port: (server.address() as AddressInfo).port, path: `/tasks/${id}` })
})

let maxRss = 0
let maxBuffers = 0
setInterval(() => {
  const { rss, external } = process.memoryUsage()
  maxRss = Math.max(maxRss, rss)
  maxBuffers = Math.max(maxBuffers, external)
}, 20)
process.on('message', (message) => {
  if (message === 'go') end('x'.repeat(900_000))
  process.send?.({
    waiting: coreOf(tasks).waiters.size,
    rss: process.memoryUsage().rss,
    maxRss,
    maxBuffers,
    path: `/tasks/${id}`,
  })
})
process.on('disconnect', () => process.exit())
