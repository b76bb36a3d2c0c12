// npx tsx examples/koa/main.ts
// curl -i -H 'Prefer: respond-async' --json '{"year": 2025}' http://127.0.0.1:3000/reports
import Router from '@koa/router'
import Koa from 'koa'
import type { AddressInfo } from 'node:net'
import { createTasks, taskEndpoints } from 'longhaul'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import { report } from '../report.js'

const tasks = createTasks({ ...memory(), definitions: [report] })
const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}' })
const start = toNode(submit(report))
const show = toNode(status)

const router = new Router()
router.post('/reports', (ctx) => {
  // longhaul answers, so Koa must not.
  ctx.respond = false
  start(ctx.req, ctx.res, { context: ctx.state })
})
router.register('/tasks/:id', ['GET', 'HEAD', 'DELETE'], (ctx) => {
  ctx.respond = false
  show(ctx.req, ctx.res, { context: ctx.state })
})

const server = new Koa().use(router.routes()).listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => {
  console.log(`Ready at http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
