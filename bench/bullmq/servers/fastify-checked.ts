// By hand with the duties of longhaul: a record that outlives BullMQ's job and is written before it; a claim and a final
// state that a cancelled, lost or later run cannot change; an owner; a deadline for the enqueue; an ETag and Retry-After.
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { Queue, Worker } from 'bullmq'
import fastify from 'fastify'
import { Redis } from 'ioredis'
import { subject } from '../../frame/subject.js'

interface Scripts {
  /** Creates the record of KEYS[1], unless there is one. ARGV has its owner, the time and its expiry. */
  accept(key: string, owner: string, now: number, expiresAt: number): Promise<number>
  /** Starts a run. Returns its number, or nothing if there is no record or it is final. */
  claim(key: string, now: number): Promise<number | null>
  /** Ends the run of this number, unless another has started or the task was cancelled. */
  finish(key: string, attempt: number, now: number, state: string, result: string, expiresAt: number): Promise<number>
}

const DAY = 86_400_000
const scripts = {
  accept: `if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
redis.call('HSET', KEYS[1], 'state', 'queued', 'owner', ARGV[1], 'created', ARGV[2], 'attempt', 0, 'version', 1)
redis.call('PEXPIREAT', KEYS[1], ARGV[3])
return 1`,
  claim: `local state = redis.call('HGET', KEYS[1], 'state')
if state ~= 'queued' and state ~= 'processing' then return nil end
redis.call('HSET', KEYS[1], 'state', 'processing', 'started', ARGV[1])
redis.call('HINCRBY', KEYS[1], 'version', 1)
redis.call('PUBLISH', KEYS[1], '')
return redis.call('HINCRBY', KEYS[1], 'attempt', 1)`,
  finish: `local now = redis.call('HMGET', KEYS[1], 'state', 'attempt')
if now[1] ~= 'processing' or now[2] ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'finished', ARGV[2], 'state', ARGV[3], 'result', ARGV[4])
redis.call('HINCRBY', KEYS[1], 'version', 1)
redis.call('PEXPIREAT', KEYS[1], ARGV[5])
redis.call('PUBLISH', KEYS[1], '')
return 1`,
}

const connection = new Redis(process.env['REDIS_URL'] ?? '', { maxRetriesPerRequest: null })
for (const [name, lua] of Object.entries(scripts)) connection.defineCommand(name, { numberOfKeys: 1, lua })
const records = connection as Redis & Scripts
const keyOf = (id: string): string => `by-hand-task:${id}`

if (process.argv[2] === 'worker') {
  new Worker('by-hand-checked', async (job) => {
    const key = keyOf(job.id ?? '')
    const attempt = await records.claim(key, Date.now())
    if (attempt === null) return
    const result = { message: 'The report is ready.' }
    await records.finish(key, attempt, Date.now(), 'completed', JSON.stringify(result), Date.now() + DAY)
  }, { connection, concurrency: 10 })
  subject(createServer())
} else {
  const queue = new Queue('by-hand-checked', { connection })
  const app = fastify()
  app.post('/reports', async (request, reply) => {
    const id = randomUUID()
    const now = Date.now()
    await records.accept(keyOf(id), '', now, now + 7 * DAY)
    let timer: ReturnType<typeof setTimeout> | undefined
    const late = new Promise((_, reject) => { timer = setTimeout(() => { reject(new Error('too late')) }, 1500) })
    await Promise.race([queue.add('report', request.body, { jobId: id, attempts: 1, removeOnComplete: true }), late])
    clearTimeout(timer)
    const location = `/tasks/${id}`
    return reply.code(202).headers({ location, 'content-location': location, 'retry-after': '1' }).send({
      taskId: id, status: 'processing', message: 'Accepted.', createdAt: new Date(now).toISOString(),
    })
  })
  app.get<{ Params: { id: string } }>('/tasks/:id', async (request, reply) => {
    const { id } = request.params
    const record = await records.hgetall(keyOf(id))
    const { state, owner, created, started, finished, result, version } = record
    if (state === undefined || owner !== '') return reply.code(404).send({ error: 'There is no such task.' })
    const etag = `"${created ?? ''}-${version ?? ''}"`
    reply.headers({ etag, 'cache-control': 'private, no-cache', 'vary': 'Prefer, Accept, Authorization' })
    if (request.headers['if-none-match'] === etag) return reply.code(304).send()
    const final = state === 'completed' || state === 'failed' || state === 'cancelled'
    if (!final) reply.header('retry-after', '1')
    return {
      taskId: id, status: final ? state : 'processing', ...(result === undefined ? {} : { result: JSON.parse(result) as unknown }),
      createdAt: toIso(created), ...(started === undefined ? {} : { startedAt: toIso(started) }), ...(finished === undefined ? {} : { finishedAt: toIso(finished) }),
    }
  })
  await app.ready()
  subject(app.server)
}

function toIso(ms: string | undefined): string {
  return new Date(Number(ms)).toISOString()
}
