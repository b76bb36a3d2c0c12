// Runs beside old versions of the optional peers: the entry points that use them work, by import and by require.
import 'reflect-metadata'
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { NestFactory } from '@nestjs/core'
import { metrics } from '@opentelemetry/api'
import { Queue, QueueEvents } from 'bullmq'
import { fastify } from 'fastify'
import { Redis } from 'ioredis'
import Koa from 'koa'

const require = createRequire(import.meta.url)

async function usePeers(load) {
  const { createTasks, defineTask, json, router, taskEndpoints } = await load('longhaul')
  const { memory } = await load('longhaul/memory')
  const handler = router({ 'GET /{id}': ({ params }) => json(200, { ...params }) })

  const { fastifyLonghaul } = await load('longhaul/fastify')
  const app = fastify()
  app.options('/api/*', () => 'the application')
  app.register(fastifyLonghaul, { prefix: '/:tenant', handler })
  for (const [method, body] of [['GET', '{"id":"7","tenant":"api"}'], ['OPTIONS', 'the application']]) {
    assert.equal((await app.inject({ method, url: '/api/7' })).body, body)
  }
  await app.close()

  const { toKoa } = await load('longhaul/koa')
  const server = new Koa().use(toKoa(handler)).listen(0)
  await once(server, 'listening')
  const response = await fetch(`http://127.0.0.1:${server.address().port}/7`)
  assert.deepEqual(await response.json(), { id: '7' })
  server.close()

  const { cron } = await load('longhaul/cron')
  const { taskMetrics, taskTracing } = await load('longhaul/opentelemetry')
  const { LonghaulModule, TASKS, TASK_ENDPOINTS } = await load('longhaul/nestjs')
  const endMetrics = taskMetrics({ meter: metrics.getMeter('test') })
  const report = defineTask({ name: 'report', schedule: cron('0 3 * * *'), run: () => ({ message: 'done' }) })
  const module = LonghaulModule.forRoot({
    tasks: { ...memory(), definitions: [report], tracing: taskTracing() },
    endpoints: { statusPath: '/tasks/{id}', owner: 'anyone' }
  })
  const nest = await NestFactory.createApplicationContext(module, { logger: false })
  const end = await (await nest.get(TASKS).submit(report, {})).wait({ timeoutMs: 10_000 })
  assert.equal(end.status, 'completed')
  assert.equal(typeof nest.get(TASK_ENDPOINTS).status, 'function')
  await nest.close()
  endMetrics()
  assert.equal(typeof createTasks, typeof taskEndpoints)

  const { redis } = await load('longhaul/redis')
  const client = new Redis({ lazyConnect: true, maxRetriesPerRequest: null })
  const { engine } = redis({ client })
  assert.equal(engine.shared, true)
  client.disconnect()

  const { bullmqTask } = await load('longhaul/bullmq')
  const jobs = (prototype) => Object.assign(Object.create(prototype), { name: 'jobs' })
  const work = bullmqTask({ name: 'work', queue: jobs(Queue.prototype), events: jobs(QueueEvents.prototype) })
  assert.equal(typeof work.run, 'function')

  const { S3Blobs } = await load('longhaul/s3')
  assert.equal(typeof S3Blobs, 'function')
}

await usePeers((entry) => import(entry))
await usePeers(require)
process.exit()
