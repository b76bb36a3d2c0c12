// A process that ends at one write: node crash-process.ts <redis url> <web | worker> <where, or -> [stalls that are allowed].
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Redis } from 'ioredis'
import { createTasks, router, taskEndpoints } from 'longhaul'
import type { EnqueueOptions, Job } from 'longhaul/queues'
import type { Revision, WriteOptions } from 'longhaul/stores'
import { BullMQQueue } from 'longhaul/bullmq'
import { callbacks, httpSender } from 'longhaul/callbacks'
import { toNode } from 'longhaul/node'
import { RedisStore, RedisTaskIndex } from 'longhaul/redis'
import { SECRET, TIMES, workOn } from './work.js'

const [, , url = '', role = '', where = '-', stalls = '1'] = process.argv

function here(point: string): void {
  if (point === where) process.kill(process.pid, 'SIGKILL')
}

class CrashingStore extends RedisStore {
  override async create(key: string, value: string, options: WriteOptions) {
    const outcome = await super.create(key, value, options)
    here(`created ${key.slice(0, key.indexOf(':'))}`)
    return outcome
  }

  override async replace(key: string, value: string, revision: Revision, options: WriteOptions) {
    const state = key.startsWith('task:') ? /^\["(\w+)"/.exec(value)?.[1] : undefined
    here(`before ${state ?? ''}`)
    const outcome = await super.replace(key, value, revision, options)
    here(`wrote ${state ?? ''}`)
    return outcome
  }
}

class CrashingQueue extends BullMQQueue {
  override async enqueue(job: Job, options?: EnqueueOptions) {
    const outcome = await super.enqueue(job, options)
    here(`enqueued ${job.name}`)
    return outcome
  }
}

const client = new Redis(url)
const connection = new Redis(url, { maxRetriesPerRequest: null })
const work = workOn(client)
const tasks = createTasks({
  store: new CrashingStore({ client }), index: new RedisTaskIndex({ client }), sweepMs: 1000, queue: new CrashingQueue({ connection, ...TIMES, maxStalledCount: Number(stalls) }),
  definitions: [work], worker: role === 'worker', concurrency: 4,
  callbacks: callbacks({
    sender: httpSender({ allow: ['127.0.0.1'] }), secrets: () => [SECRET], attempts: 3, backoff: { type: 'fixed', delayMs: 100 },
    queue: new CrashingQueue({ connection, ...TIMES, name: 'callbacks' }),
  }),
})
if (role === 'worker') console.log('ready')
else {
  const { submit, status } = taskEndpoints(tasks, { statusPath: '/tasks/{id}', owner: 'anyone', callback: ({ callbackUrl }) => callbackUrl })
  const server = createServer(toNode(router({ 'POST /tasks': submit(work, { respond: 'always' }), 'GET|HEAD|DELETE /tasks/{id}': status })))
  server.listen(0, '127.0.0.1', () => { console.log(`ready at http://127.0.0.1:${String((server.address() as AddressInfo).port)}`) })
}
