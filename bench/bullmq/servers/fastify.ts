// By hand: Fastify and BullMQ, web and worker apart. State and result come from BullMQ itself, as its guide has it.
import { createServer } from 'node:http'
import { Queue, Worker } from 'bullmq'
import fastify from 'fastify'
import { Redis } from 'ioredis'
import { subject } from '../../frame/subject.js'

const connection = new Redis(process.env['REDIS_URL'] ?? '', { maxRetriesPerRequest: null })

if (process.argv[2] === 'worker') {
  new Worker('by-hand', async () => ({ message: 'The report is ready.' }), { connection, concurrency: 10 })
  subject(createServer())
} else {
  const queue = new Queue('by-hand', { connection })
  const app = fastify()
  app.post('/reports', async (request, reply) => {
    const job = await queue.add('report', request.body, { attempts: 1, removeOnComplete: { age: 86_400 }, removeOnFail: { age: 86_400 } })
    return reply.code(202).header('location', `/tasks/${String(job.id)}`).send({ taskId: job.id, status: 'processing', message: 'Accepted.' })
  })
  app.get<{ Params: { id: string } }>('/tasks/:id', async (request, reply) => {
    const job = await queue.getJob(request.params.id)
    if (!job) return reply.code(404).send({ error: 'There is no such task.' })
    const state = await job.getState()
    const status = state === 'completed' || state === 'failed' ? state : 'processing'
    return { taskId: job.id, status, ...(state === 'completed' ? { result: job.returnvalue as unknown } : {}), createdAt: new Date(job.timestamp).toISOString() }
  })
  await app.ready()
  subject(app.server)
}
