// The same through longhaul, mounted on node:http: a web process that runs nothing, and a worker. One client serves the engine and BullMQ.
import { createServer } from 'node:http'
import { Redis } from 'ioredis'
import { createTasks, defineTask, router, taskEndpoints } from 'longhaul'
import { toNode } from 'longhaul/node'
import { redis } from 'longhaul/redis'
import { subject } from '../../frame/subject.js'

const client = new Redis(process.env['REDIS_URL'] ?? '', { maxRetriesPerRequest: null })
const report = defineTask({ name: 'report', maxPerOwner: Infinity, run: () => ({ message: 'The report is ready.' }) })
const isWorker = process.argv[2] === 'worker'
const tasks = createTasks({ ...redis({ client }), definitions: [report], worker: isWorker, concurrency: 10 })
const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })

subject(isWorker ? createServer() : createServer(toNode(router({
  'POST /reports': endpoints.submit(report), 'GET|HEAD|DELETE /tasks/{id}': endpoints.status,
}))))
