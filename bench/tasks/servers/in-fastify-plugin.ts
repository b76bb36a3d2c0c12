import Fastify from 'fastify'
import { createTasks, defineTask, router, taskEndpoints } from 'longhaul'
import { fastifyLonghaul } from 'longhaul/fastify'
import { memory } from 'longhaul/memory'
import { subject } from '../../frame/subject.js'
import { doWork, type Input } from '../work.js'

const report = defineTask({ name: 'report', maxPerOwner: Infinity, run: (input: Input) => doWork(input) })
const tasks = createTasks({ ...memory(), definitions: [report] })
const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
const handler = router({ 'POST /reports': submit(report), 'GET|HEAD|DELETE /tasks/{id}': status })

const app = Fastify()
await app.register(fastifyLonghaul, { handler })
await app.ready()
subject(app.server)
