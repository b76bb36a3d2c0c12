// npx tsx examples/express/main.ts
// curl -i -H 'Prefer: respond-async' --json '{"year": 2025}' http://127.0.0.1:3000/api/reports
import express from 'express'
import type { AddressInfo } from 'node:net'
import { createTasks, taskEndpoints } from 'longhaul'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import { report } from '../report.js'

const tasks = createTasks({ ...memory(), definitions: [report] })
const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })

const api = express.Router()
api.post('/reports', toNode(submit(report)))
api.all('/tasks/:id', toNode(status))

const app = express().use('/api', api)
const server = app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => {
  console.log(`Ready at http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
