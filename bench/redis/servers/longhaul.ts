// A web process that accepts tasks and shows them. Its queue drops all jobs, because this benchmark measures the store only.
import { createServer } from 'node:http'
import { Redis } from 'ioredis'
import { createTasks, defineTask, router, taskEndpoints } from 'longhaul'
import type { Queue } from 'longhaul/queues'
import { toNode } from 'longhaul/node'
import { redis } from 'longhaul/redis'
import { subject } from '../../frame/subject.js'

const queue: Queue = {
  durable: true, enqueue: () => Promise.resolve('accepted'), process: () => undefined, remove: () => Promise.resolve(false), has: () => Promise.resolve(true), close: () => Promise.resolve(),
}
const engine = redis({ client: new Redis(process.env['REDIS_URL'] ?? '', { enableAutoPipelining: true }) })
const report = defineTask({ name: 'report', maxPerOwner: Infinity, run: () => ({ message: 'The report is ready.' }) })
const tasks = createTasks({ ...engine, queue, definitions: [report], worker: false })
const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })

subject(createServer(toNode(router({ 'POST /reports': endpoints.submit(report), 'GET|HEAD|DELETE /tasks/{id}': endpoints.status }))))
