// npx tsx examples/fastify/main.ts
// curl -i -H 'Prefer: respond-async' --json '{"year": 2025}' http://127.0.0.1:3000/reports
import fastify from 'fastify'
import { createTasks, taskEndpoints } from 'longhaul'
import { toFastify } from 'longhaul/fastify'
import { memory } from 'longhaul/memory'
import { report } from '../report.js'

const tasks = createTasks({ ...memory(), definitions: [report] })
const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })

const app = fastify()
app.post('/reports', toFastify(submit(report)))
app.route({ method: ['GET', 'DELETE'], url: '/tasks/:id', handler: toFastify(status) })
console.log(`Ready at ${await app.listen({ port: Number(process.env['PORT'] ?? 3000), host: '127.0.0.1' })}`)
