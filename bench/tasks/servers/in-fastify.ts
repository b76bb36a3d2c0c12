import Fastify from 'fastify'
import { createTasks, defineTask, taskEndpoints } from 'longhaul'
import { toFastify } from 'longhaul/fastify'
import { memory } from 'longhaul/memory'
import { subject } from '../../frame/subject.js'
import { doWork, type Input } from '../work.js'

const report = defineTask({ name: 'report', maxPerOwner: Infinity, run: (input: Input) => doWork(input) })
const tasks = createTasks({ ...memory(), definitions: [report] })
const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })

const app = Fastify()
app.post('/reports', toFastify(submit(report)))
app.get('/tasks/:id', toFastify(status))
await app.ready()
subject(app.server)
