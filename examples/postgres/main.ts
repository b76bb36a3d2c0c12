// DATABASE_URL=postgres://… npx tsx examples/postgres/main.ts
// curl -i -H 'Prefer: respond-async' --json '{"year": 2025}' http://127.0.0.1:3000/reports
// Start as many as you like: with WORKER=off a process accepts tasks and shows them, but runs none.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createTasks, router, taskEndpoints } from 'longhaul'
import { closeOnSignal, toNode } from 'longhaul/node'
import { postgres } from 'longhaul/postgres'
import pg from 'pg'
import { report } from '../report.js'

const connectionString = process.env['DATABASE_URL']
if (!connectionString) {
  console.error('Set DATABASE_URL to the address of a PostgreSQL database, such as postgres://me:secret@127.0.0.1/app.')
  process.exit(1)
}
const pool = new pg.Pool({ connectionString, max: 10, connectionTimeoutMillis: 3000 })
const { engine, store, blobs } = postgres({ pool })
const worker = process.env['WORKER'] !== 'off'
const tasks = createTasks({ engine, store, blobs, definitions: [report], worker })
const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })

const routes = router({ 'POST /reports': submit(report), 'GET|HEAD|DELETE /tasks/{id}': status })
const server = createServer(toNode(routes))
server.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => {
  console.log(`Ready at http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})

closeOnSignal({ server, tasks, store, blobs, pool })
