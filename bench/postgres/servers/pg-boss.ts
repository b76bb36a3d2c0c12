// By hand: Fastify, pg-boss and a status table; web and worker apart.
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import fastify from 'fastify'
import { PgBoss } from 'pg-boss'
import { subject } from '../../frame/subject.js'
import { openPool } from './pool.js'
import { StatusTable } from './status-table.js'

const pool = openPool()
const tasks = new StatusTable(pool, 'boss_tasks')
await tasks.create()
const boss = new PgBoss({ db: { executeSql: async (text, values) => await pool.query(text, values) } })
boss.on('error', () => undefined)
await boss.start()
await boss.createQueue('report')

if (process.argv[2] === 'worker') {
  // Its shortest interval between two polls is half a second, so it takes many jobs at once.
  await boss.work<{ id: string }>('report', { batchSize: 50, pollingIntervalSeconds: 0.5 }, async (jobs) => {
    await Promise.all(jobs.map(async ({ data: { id } }) => {
      await tasks.start(id)
      await tasks.finish(id, { message: 'The report is ready.' })
    }))
  })
  subject(createServer())
} else {
  const app = fastify()
  app.post('/reports', async (request, reply) => {
    const id = randomUUID()
    await tasks.accept(id)
    await boss.send('report', { id, input: request.body })
    return reply.code(202).header('location', `/tasks/${id}`).send({ taskId: id, status: 'processing', message: 'Accepted.' })
  })
  tasks.serve(app)
  await app.ready()
  subject(app.server)
}
