// npx tsx examples/express/main.ts
// curl -i -H 'Prefer: respond-async' --json '{"year": 2025}' http://127.0.0.1:3000/api/reports
// curl -i 'http://127.0.0.1:3000/api/tasks?status=processing,failed'
import express from 'express'
import type { AddressInfo } from 'node:net'
import { createTasks, taskEndpoints, type HttpRequest } from 'longhaul'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import { report } from '../report.js'
import { sales } from '../sales.js'

// In place of your authentication: the client says who it is.
const owner = ({ headers }: HttpRequest): string => String(headers['x-user'] ?? 'ann')

const tasks = createTasks({ ...memory(), definitions: [report, sales] })
const { submit, status, list, files, retry } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner, remove: 'forget' })

const api = express.Router()
api.post('/reports', toNode(submit(report)))
api.post('/sales', toNode(submit(sales, { respond: 'always' })))
api.get('/tasks', toNode(list))
api.all('/tasks/:id', toNode(status))
api.all('/tasks/:id/files/:name', toNode(files))
api.all('/tasks/:id/retry', toNode(retry))

const app = express().use('/api', api)
const server = app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => {
  console.log(`Ready at http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
