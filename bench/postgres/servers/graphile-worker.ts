// By hand: Fastify, graphile-worker and a status table; web and worker apart.
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import fastify from 'fastify'
import { Logger, makeWorkerUtils, run } from 'graphile-worker'
import { subject } from '../../frame/subject.js'
import { openPool } from './pool.js'
import { StatusTable } from './status-table.js'

const pool = openPool()
const tasks = new StatusTable(pool, 'graphile_tasks')
await tasks.create()
const logger = new Logger(() => () => undefined)
const utils = await makeWorkerUtils({ pgPool: pool, logger })
await utils.migrate()

if (process.argv[2] === 'worker') {
  await run({
    pgPool: pool, logger, concurrency: 10, noHandleSignals: true,
    taskList: {
      report: async (payload) => {
        const { id } = payload as { id: string }
        await tasks.start(id)
        await tasks.finish(id, { message: 'The report is ready.' })
      },
    },
  })
  subject(createServer())
} else {
  const app = fastify()
  app.post('/reports', async (request, reply) => {
    const id = randomUUID()
    await tasks.accept(id)
    await utils.addJob('report', { id, input: request.body })
    return reply.code(202).header('location', `/tasks/${id}`).send({ taskId: id, status: 'processing', message: 'Accepted.' })
  })
  tasks.serve(app)
  await app.ready()
  subject(app.server)
}
