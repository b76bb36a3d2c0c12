// A process that ends at one point: node process.ts <url> <web | worker> <point, or ->. Prints the
// points that it reaches.
import { writeSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createTasks, router, taskEndpoints } from 'longhaul'
import { callbacks, httpSender } from 'longhaul/callbacks'
import { toNode } from 'longhaul/node'
import { withPoints } from './crashing-engine.js'
import { openPostgres } from './postgres.js'
import { openRedis } from './redis.js'
import { openSqliteFile } from './sqlite.js'
import { SECRET, workOn } from './work.js'

const [, , url = '', role = '', where = '-'] = process.argv

function reach(point: string): void {
  // Written at once, because the process may end here.
  writeSync(1, `point ${point}\n`)
  if (point === where) process.kill(process.pid, 'SIGKILL')
}

const open = url.startsWith('redis:') ? openRedis : url.startsWith('sqlite:') ? openSqliteFile : openPostgres
const { engine, store, count } = open(url)
const work = workOn(count)
const tasks = createTasks({
  engine: withPoints(engine, reach),
  store,
  definitions: [work],
  worker: role === 'worker',
  concurrency: 4,
  callbacks: callbacks({
    sender: httpSender({ allow: ['127.0.0.1'] }),
    secrets: () => [SECRET],
    attempts: 3,
    backoff: { type: 'fixed', delayMs: 100 },
  }),
})
if (role === 'worker') console.log('ready')
else {
  const { submit, status } = taskEndpoints(tasks, {
    statusPath: '/tasks/{id}',
    owner: 'anyone',
    remove: 'forget',
    callback: ({ callbackUrl }) => callbackUrl,
  })
  const server = createServer(
    toNode(router({ 'POST /tasks': submit(work, { respond: 'always' }), 'GET|HEAD|DELETE /tasks/{id}': status })),
  )
  server.listen(0, '127.0.0.1', () => {
    console.log(`ready at http://127.0.0.1:${String((server.address() as AddressInfo).port)}`)
  })
}
