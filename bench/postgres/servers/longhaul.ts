// The same through longhaul on one PostgreSQL: a web process that runs nothing, and a worker.
import { createServer } from 'node:http'
import { createTasks, defineTask, router, taskEndpoints } from 'longhaul'
import { toNode } from 'longhaul/node'
import { postgres } from 'longhaul/postgres'
import { subject } from '../../frame/subject.js'
import { openPool } from './pool.js'

const report = defineTask({ name: 'report', maxPerOwner: Infinity, run: () => ({ message: 'The report is ready.' }) })
const isWorker = process.argv[2] === 'worker'
const tasks = createTasks({ ...postgres({ pool: openPool(), preparedStatements: true }), definitions: [report], worker: isWorker, concurrency: 10 })
const endpoints = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })

subject(isWorker ? createServer() : createServer(toNode(router({
  'POST /reports': endpoints.submit(report), 'GET|HEAD|DELETE /tasks/{id}': endpoints.status,
}))))
