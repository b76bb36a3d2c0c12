import Fastify from 'fastify'
import { subject } from '../../frame/subject.js'
import { accept, acceptedHeaders, find, statusHeaders } from '../flow.js'
import type { Input } from '../work.js'

const app = Fastify()

app.post<{ Body: Input }>('/reports', async (request, reply) => {
  const task = accept(request.body)
  return reply.code(202).headers(acceptedHeaders(task)).send(task)
})

app.get<{ Params: { id: string } }>('/tasks/:id', async (request, reply) => {
  const task = find(request.params.id)
  if (!task) return reply.code(404).send({ error: 'There is no such task.', code: 'task_not_found' })
  return reply.headers(statusHeaders(task)).send(task)
})

await app.ready()
subject(app.server)
