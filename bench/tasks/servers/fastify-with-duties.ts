// Fastify by hand with the duties of longhaul; `fastify` is the same without them.
import Fastify from 'fastify'
import { subject } from '../../frame/subject.js'
import { acceptedHeaders, statusHeaders } from '../flow.js'
import { accept, cancel, find, prefersAsync } from '../flow-with-duties.js'
import type { Input } from '../work.js'

const app = Fastify()
const missing = { error: 'There is no such task.', code: 'task_not_found' }

app.post<{ Body: Input }>('/reports', async (request, reply) => {
  // The direct answer is left out: the benchmark asks for the other one only.
  if (!prefersAsync(request.headers.prefer as string | undefined)) return reply.code(501).send()
  const task = accept(request.body)
  if (!task) return reply.code(503).header('retry-after', '5').send({ error: 'The queue is full.', code: 'queue_full' })
  return reply.code(202).headers(acceptedHeaders(task)).send(task)
})

app.get<{ Params: { id: string } }>('/tasks/:id', async (request, reply) => {
  const task = find(request.params.id)
  if (!task) return reply.code(404).send(missing)
  const headers = statusHeaders(task)
  if (request.headers['if-none-match'] === headers['etag']) return reply.code(304).headers(headers).send()
  return reply.headers(headers).send(task)
})

app.delete<{ Params: { id: string } }>('/tasks/:id', async (request, reply) => {
  if (!find(request.params.id)) return reply.code(404).send(missing)
  return reply.code(cancel(request.params.id) ? 202 : 409).send()
})

await app.ready()
subject(app.server)
