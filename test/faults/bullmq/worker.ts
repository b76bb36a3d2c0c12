// The workers of an application, which know nothing of longhaul: node worker.ts MAJOR URL QUEUE.
import { setTimeout as sleep } from 'node:timers/promises'
import * as bullmq6 from 'bullmq'
import * as bullmq5 from 'bullmq5'
import { Redis } from 'ioredis'
import { connectionOf } from './queues.js'

interface Data {
  readonly say?: unknown
  readonly fail?: string
  readonly progress?: readonly (number | object)[]
  /** Key of Redis for which the job waits. */
  readonly gate?: string
}

const [major = '6', url = '', name = ''] = process.argv.slice(2)
const { Worker } = major === '5' ? bullmq5 as unknown as typeof bullmq6 : bullmq6
const redis = new Redis(url, { maxRetriesPerRequest: null, retryStrategy: () => 50 })
redis.on('error', () => undefined)

const worker = new Worker<Data>(name, async (job, _token, signal) => {
  const { say, fail, progress = [], gate } = job.data
  console.log(`run ${String(job.id)}`)
  for (const each of progress) await job.updateProgress(each)
  while (gate !== undefined && await redis.get(gate) === null) await sleep(20, undefined, signal && { signal })
  if (fail !== undefined) throw new Error(fail)
  return say
}, { connection: connectionOf(url), concurrency: 20 })
worker.on('error', () => undefined)

const subscriber = redis.duplicate()
subscriber.on('error', () => undefined)
await subscriber.subscribe(`cancel:${name}`)
subscriber.on('message', (_channel: string, jobId: string) => { worker.cancelJob(jobId) })
await worker.waitUntilReady()
console.log('ready')
