// A process that ends at one call of its engine: node process.ts <url> <web | worker> <where, or -> [maxCrashes].
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createTasks, router, taskEndpoints } from 'longhaul'
import { callbacks, httpSender } from 'longhaul/callbacks'
import { toNode } from 'longhaul/node'
import type { TaskEngine } from '../../../src/engine/engine.js'
import { openPostgres } from './postgres.js'
import { openRedis } from './redis.js'
import { SECRET, workOn } from './work.js'

const [, , url = '', role = '', where = '-', maxCrashes = '3'] = process.argv

function here(point: string): void {
  if (point === where) process.kill(process.pid, 'SIGKILL')
}

/** Ends the process before or after a call of the engine, or when the engine hands something out. */
function crashing(engine: TaskEngine): TaskEngine {
  const create = engine.create.bind(engine)
  const change = engine.change.bind(engine)
  const work = engine.work.bind(engine)
  return Object.assign(engine, {
    create: async (...args) => {
      here('before created')
      const outcome = await create(...args)
      here('created')
      return outcome
    },
    change: async (ref, expected, to) => {
      here(`before ${to.status ?? ''}`)
      const outcome = await change(ref, expected, to)
      here(`wrote ${to.status ?? ''}`)
      return outcome
    },
    work: (options, handlers) => {
      work(options, {
        ...handlers,
        run: (run) => {
          here('begun')
          return handlers.run(run)
        },
      })
    },
  } satisfies Partial<TaskEngine>)
}

const { engine, store, count } = url.startsWith('redis:') ? openRedis(url) : openPostgres(url)
const work = workOn(count)
const tasks = createTasks({
  engine: crashing(engine), store, definitions: [work], worker: role === 'worker', concurrency: 4,
  maxCrashes: Number(maxCrashes),
  callbacks: callbacks({
    sender: httpSender({ allow: ['127.0.0.1'] }), secrets: () => [SECRET], attempts: 3, backoff: { type: 'fixed', delayMs: 100 },
  }),
})
if (role === 'worker') console.log('ready')
else {
  const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone', callback: ({ callbackUrl }) => callbackUrl })
  const server = createServer(toNode(router({ 'POST /tasks': submit(work, { respond: 'always' }), 'GET|HEAD|DELETE /tasks/{id}': status })))
  server.listen(0, '127.0.0.1', () => { console.log(`ready at http://127.0.0.1:${String((server.address() as AddressInfo).port)}`) })
}
