// npx tsx examples/fastify/main.ts
// curl -i -H 'Prefer: respond-async' --json '{"year": 2025}' http://127.0.0.1:3000/reports
import fastify from 'fastify'
import { createTasks, taskEndpoints } from 'longhaul'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'
import { report } from '../report.js'

const tasks = createTasks({ ...memory(), definitions: [report] })
const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}' })
const start = toNode(submit(report))
const show = toNode(status)

const app = fastify()
app.post('/reports', (request, reply) => {
  reply.hijack()
  // Fastify has read the body already.
  start(request.raw, reply.raw, { body: request.body })
})
app.route({
  method: ['GET', 'DELETE'],
  url: '/tasks/:id',
  handler(request, reply) {
    reply.hijack()
    show(request.raw, reply.raw)
  },
})
console.log(`Ready at ${await app.listen({ port: Number(process.env['PORT'] ?? 3000), host: '127.0.0.1' })}`)
