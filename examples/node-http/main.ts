// npx tsx examples/node-http/main.ts
// curl -i -H 'Prefer: respond-async' --json '{"year": 2026}' http://127.0.0.1:3000/reports
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { createTasks, defineTask, router, taskEndpoints } from 'longhaul'
import { memory } from 'longhaul/memory'
import { toNode } from 'longhaul/node'

const report = defineTask({
  name: 'report',
  async run({ year }: { year: number }, { progress, signal }) {
    for (let month = 1; month <= 12; month++) {
      await sleep(250, undefined, { signal }) // in place of slow work
      progress(month, 12)
    }
    return { message: `The report of ${year} is ready.` }
  },
})
const tasks = createTasks({ ...memory(), definitions: [report] })
const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone' })
const handler = router({ 'POST /reports': submit(report), 'GET|HEAD|DELETE /tasks/{id}': status })
const server = createServer(toNode(handler)).listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1', () => {
  console.log(`Ready at http://127.0.0.1:${(server.address() as AddressInfo).port}`)
})
