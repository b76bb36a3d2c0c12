// npx tsx examples/postgres-store/main.ts, with DATABASE_URL=postgres://… for a server in place of pglite
// curl -i -H 'Prefer: respond-async' --json '{"year": 2025}' http://127.0.0.1:3000/reports
import { PGlite } from '@electric-sql/pglite'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createTasks, router, taskEndpoints } from 'longhaul'
import { MemoryQueue } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import pg from 'pg'
import { report } from '../report.js'
import { overPglite } from './pglite.js'
import { overPool } from './postgres.js'
import { PostgresStore } from './store.js'

const connectionString = process.env['DATABASE_URL']
const db = connectionString === undefined
  ? overPglite(await PGlite.create())
  : overPool(new pg.Pool({ connectionString, connectionTimeoutMillis: 5000, query_timeout: 10_000 }))

const tasks = createTasks({ store: await PostgresStore.open(db), queue: new MemoryQueue(), definitions: [report] })
const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })

const server = createServer(toNode(router({ 'POST /reports': submit(report), 'GET|HEAD|DELETE /tasks/{id}': status })))
server.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => {
  console.log(`Ready at http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
