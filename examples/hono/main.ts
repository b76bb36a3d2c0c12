// npx tsx examples/hono/main.ts
// curl -i -H 'Prefer: respond-async' --json '{"year": 2025}' http://127.0.0.1:3000/reports
import { serve } from '@hono/node-server'
import { Hono } from 'hono'
import { createTasks, taskEndpoints } from 'longhaul'
import { toFetch } from 'longhaul/fetch'
import { memory } from 'longhaul/memory'
import { report } from '../report.js'

const tasks = createTasks({ ...memory(), definitions: [report] })
const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
const start = toFetch(submit(report))
const show = toFetch(status)

const app = new Hono()
app.post('/reports', (c) => start(c.req.raw))
app.on(['GET', 'DELETE'], '/tasks/:id', (c) => show(c.req.raw))

serve({ fetch: app.fetch, port: Number(process.env['PORT'] ?? 3000), hostname: '127.0.0.1' }, ({ port }) => {
  console.log(`Ready at http://127.0.0.1:${port}`)
})
