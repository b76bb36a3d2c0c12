// A web process that accepts tasks and shows them, and runs none.
import { createServer } from 'node:http'
import { Redis } from 'ioredis'
import { createTasks, defineTask, router, taskEndpoints } from 'longhaul'
import { toNode } from 'longhaul/node'
import { redis } from 'longhaul/redis'
import { subject } from '../../frame/subject.js'

const client = new Redis(process.env['REDIS_URL'] ?? '', { enableAutoPipelining: true })
const report = defineTask({ name: 'report', maxPerOwner: Infinity, run: () => ({ message: 'The report is ready.' }) })
const tasks = createTasks({ ...redis({ client }), definitions: [report], worker: false })
const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })

subject(createServer(toNode(router({ 'POST /reports': endpoints.submit(report), 'GET|HEAD|DELETE /tasks/{id}': endpoints.status }))))
