// REDIS_URL=redis://127.0.0.1:6379 npx tsx examples/worker/web.ts
// curl -i -H 'Prefer: respond-async' --json '{"year": 2025}' http://127.0.0.1:3000/reports
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { router, taskEndpoints } from 'longhaul'
import { closeOnSignal, toNode } from 'longhaul/node'
import { report } from '../report.js'
import { openEngine } from './engine.js'

const engine = openEngine({ worker: false })
const { submit, status } = taskEndpoints(engine.tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
const server = createServer(toNode(router({ 'POST /reports': submit(report), 'GET|HEAD|DELETE /tasks/{id}': status })))
server.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => {
  console.log(`Ready at http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
closeOnSignal({ server, ...engine })
