import type { Server } from 'node:http'
import { createAdaptorServer } from '@hono/node-server'
import { Hono } from 'hono'
import { subject } from '../../frame/subject.js'
import { accept, acceptedHeaders, find, statusHeaders } from '../flow.js'
import type { Input } from '../work.js'

const app = new Hono()

app.post('/reports', async (c) => {
  const task = accept(await c.req.json<Input>())
  return c.json(task, 202, acceptedHeaders(task))
})

app.get('/tasks/:id', (c) => {
  const task = find(c.req.param('id'))
  if (!task) return c.json({ error: 'There is no such task.', code: 'task_not_found' }, 404)
  return c.json(task, 200, statusHeaders(task))
})

subject(createAdaptorServer(app) as Server)
