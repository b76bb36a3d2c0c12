// A process that ends at one write: node process.ts <url> <web | worker> <where, or -> [stalls that are allowed].
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createTasks, router, taskEndpoints } from 'longhaul'
import { callbacks, httpSender } from 'longhaul/callbacks'
import { toNode } from 'longhaul/node'
import type { Queue } from 'longhaul/queues'
import type { Store } from 'longhaul/stores'
import { openPostgres } from './postgres.js'
import { openRedis } from './redis.js'
import { SECRET, workOn } from './work.js'

const [, , url = '', role = '', where = '-', stalls = '1'] = process.argv

function here(point: string): void {
  if (point === where) process.kill(process.pid, 'SIGKILL')
}

/** Ends the process at a write of the store. */
function crashAtWrites<S extends Store>(store: S): S {
  const create = store.create.bind(store)
  const replace = store.replace.bind(store)
  store.create = async (key, value, options) => {
    const outcome = await create(key, value, options)
    here(`created ${key.slice(0, key.indexOf(':'))}`)
    return outcome
  }
  store.replace = async (key, value, revision, options) => {
    const state = key.startsWith('task:') ? /^\["(\w+)"/.exec(value)?.[1] : undefined
    here(`before ${state ?? ''}`)
    const outcome = await replace(key, value, revision, options)
    here(`wrote ${state ?? ''}`)
    return outcome
  }
  return store
}

/** Ends the process once a job is in the queue. */
function crashAtJobs<Q extends Queue>(queue: Q): Q {
  const enqueue = queue.enqueue.bind(queue)
  queue.enqueue = async (job, options) => {
    const outcome = await enqueue(job, options)
    here(`enqueued ${job.name}`)
    return outcome
  }
  return queue
}

const { store, index, queue, callbackQueue, count } =
  url.startsWith('redis:') ? openRedis(url, Number(stalls)) : openPostgres(url, Number(stalls))
const work = workOn(count)
const tasks = createTasks({
  store: crashAtWrites(store), queue: crashAtJobs(queue), ...index && { index, sweepMs: 1000 },
  definitions: [work], worker: role === 'worker', concurrency: 4,
  callbacks: callbacks({
    sender: httpSender({ allow: ['127.0.0.1'] }), secrets: () => [SECRET], attempts: 3, backoff: { type: 'fixed', delayMs: 100 },
    queue: crashAtJobs(callbackQueue),
  }),
})
if (role === 'worker') console.log('ready')
else {
  const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone', callback: ({ callbackUrl }) => callbackUrl })
  const server = createServer(toNode(router({ 'POST /tasks': submit(work, { respond: 'always' }), 'GET|HEAD|DELETE /tasks/{id}': status })))
  server.listen(0, '127.0.0.1', () => { console.log(`ready at http://127.0.0.1:${String((server.address() as AddressInfo).port)}`) })
}
