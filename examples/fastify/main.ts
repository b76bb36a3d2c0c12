// npx tsx examples/fastify/main.ts
// curl -i -H 'Prefer: respond-async' --json '{"year": 2025}' http://127.0.0.1:3000/reports
// curl -i 'http://127.0.0.1:3000/tasks?status=processing,failed'
import fastify from 'fastify'
import { createTasks, taskEndpoints, type HttpRequest } from 'longhaul'
import { toFastify } from 'longhaul/fastify'
import { memory } from 'longhaul/memory'
import { report } from '../report.js'
import { sales } from '../sales.js'

// In place of your authentication: the client says who it is.
const owner = ({ headers }: HttpRequest): string => String(headers['x-user'] ?? 'ann')

const tasks = createTasks({ ...memory(), definitions: [report, sales] })
const { submit, status, list, files, retry } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner, remove: 'forget' })

const app = fastify()
app.post('/reports', toFastify(submit(report)))
app.post('/sales', toFastify(submit(sales, { respond: 'always' })))
app.get('/tasks', toFastify(list))
app.route({ method: ['GET', 'DELETE'], url: '/tasks/:id', handler: toFastify(status) })
app.get('/tasks/:id/files/:name', toFastify(files))
app.post('/tasks/:id/retry', toFastify(retry))
console.log(`Ready at ${await app.listen({ port: Number(process.env['PORT'] ?? 3000), host: '127.0.0.1' })}`)
