import { createServer } from 'node:http'
import Router from '@koa/router'
import Koa from 'koa'
import { subject } from '../../frame/subject.js'
import { accept, acceptedHeaders, find, statusHeaders } from '../flow.js'
import type { Input } from '../work.js'

const app = new Koa()
const router = new Router()

// Koa does not read bodies. This is the least that an application does by hand.
async function bodyOf(ctx: Koa.Context): Promise<Input> {
  const chunks: Buffer[] = []
  for await (const chunk of ctx.req) chunks.push(chunk as Buffer)
  return JSON.parse(Buffer.concat(chunks).toString()) as Input
}

router.post('/reports', async (ctx) => {
  const task = accept(await bodyOf(ctx))
  ctx.status = 202
  ctx.set(acceptedHeaders(task))
  ctx.body = task
})

router.get('/tasks/:id', (ctx) => {
  const task = find(ctx.params['id'] ?? '')
  if (!task) {
    ctx.status = 404
    ctx.body = { error: 'There is no such task.', code: 'task_not_found' }
    return
  }
  ctx.set(statusHeaders(task))
  ctx.body = task
})

app.use(router.routes())
subject(createServer(app.callback()))
