import { createServer } from 'node:http'
import { H3, toNodeHandler } from 'h3/node'
import { subject } from '../../frame/subject.js'
import { accept, acceptedHeaders, find, statusHeaders } from '../flow.js'
import type { Input } from '../work.js'

const app = new H3()

app.post('/reports', async (event) => {
  const task = accept(await event.req.json() as Input)
  event.res.status = 202
  for (const [name, value] of Object.entries(acceptedHeaders(task))) event.res.headers.set(name, value)
  return task
})

app.get('/tasks/:id', (event) => {
  const task = find(event.context.params?.['id'] ?? '')
  if (!task) {
    event.res.status = 404
    return { error: 'There is no such task.', code: 'task_not_found' }
  }
  for (const [name, value] of Object.entries(statusHeaders(task))) event.res.headers.set(name, value)
  return task
})

subject(createServer(toNodeHandler(app)))
