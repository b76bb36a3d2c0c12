// npx tsx examples/express4/main.ts
// curl -i -H 'Prefer: respond-async' --json '{"year": 2025}' http://127.0.0.1:3000/api/reports
// Express 4, which this repository has under another name beside Express 5; yours is 'express'.
import express from 'express4'
import type { AddressInfo } from 'node:net'
import { createTasks, taskEndpoints } from 'longhaul'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import { report } from '../report.js'

const tasks = createTasks({ ...memory(), definitions: [report] })
const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })

const app = express()
// A body that the app has parsed is used.
app.use(express.json())
app.post('/api/reports', toNode(submit(report), { mountPath: '/api' }))
app.all('/api/tasks/:id', toNode(status, { mountPath: '/api' }))
const server = app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => {
  console.log(`Ready at http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
