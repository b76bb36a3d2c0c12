// npx tsx examples/metrics/main.ts
// curl -i -H 'Prefer: respond-async' --json '{"year": 2025}' http://127.0.0.1:3000/reports
// curl http://127.0.0.1:3000/metrics
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createTasks, router, taskEndpoints } from 'longhaul'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import { report } from '../report.js'
import { observe } from './observe.js'
import { Registry } from './registry.js'

const registry = new Registry()
observe(registry)

const tasks = createTasks({ ...memory(), definitions: [report] })
const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
const handler = router({
  'POST /reports': submit(report),
  'GET|HEAD|DELETE /tasks/{id}': status,
  'GET /metrics': () => ({ status: 200, headers: { 'content-type': 'text/plain; version=0.0.4' }, body: registry.text() }),
})
const server = createServer(toNode(handler)).listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => {
  console.log(`Ready at http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
