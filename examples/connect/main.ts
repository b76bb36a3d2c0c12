// npx tsx examples/connect/main.ts
// curl -i -H 'Prefer: respond-async' --json '{"year": 2025}' http://127.0.0.1:3000/api/reports
import connect from 'connect'
import type { AddressInfo } from 'node:net'
import { createTasks, router, taskEndpoints } from 'longhaul'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import { report } from '../report.js'

const tasks = createTasks({ ...memory(), definitions: [report] })
const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })

const app = connect()
app.use('/api', toNode(router({ 'POST /reports': submit(report), 'GET|HEAD|DELETE /tasks/{id}': status })))
const server = app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => {
  console.log(`Ready at http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
