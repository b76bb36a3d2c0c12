// npx tsx examples/koa/main.ts
// curl -i -H 'Prefer: respond-async' --json '{"year": 2025}' http://127.0.0.1:3000/reports
import Router from '@koa/router'
import Koa from 'koa'
import type { AddressInfo } from 'node:net'
import { createTasks, taskEndpoints } from 'longhaul'
import { toKoa } from 'longhaul/koa'
import { memory } from 'longhaul/memory'
import { report } from '../report.js'

const tasks = createTasks({ ...memory(), definitions: [report] })
const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })

const router = new Router()
router.post('/reports', toKoa(submit(report)))
router.register('/tasks/:id', ['GET', 'HEAD', 'DELETE'], toKoa(status))

const server = new Koa().use(router.routes()).listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => {
  console.log(`Ready at http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
