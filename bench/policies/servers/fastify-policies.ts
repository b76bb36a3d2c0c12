// The flow of bench/tasks in Fastify, behind policies by hand and rate-limiter-flexible.
import { createHash, timingSafeEqual } from 'node:crypto'
import Fastify from 'fastify'
import { RateLimiterMemory } from 'rate-limiter-flexible'
import { subject } from '../../frame/subject.js'
import { accept, acceptedHeaders } from '../../tasks/flow.js'
import type { Input } from '../../tasks/work.js'
import { TOKEN } from '../flow.js'

const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
const known = digest(TOKEN)
const limiter = new RateLimiterMemory({ points: 1_000_000_000, duration: 3600 })

const app = Fastify()
app.addHook('onRequest', async (request, reply) => {
  const token = /^Bearer (.+)$/i.exec(request.headers.authorization ?? '')?.[1]
  if (token === undefined || !timingSafeEqual(digest(token), known)) {
    return reply.code(401).header('www-authenticate', 'Bearer').send({ error: 'Valid credentials are required.', code: 'unauthorized' })
  }
  const { remainingPoints, msBeforeNext } = await limiter.consume('ann')
  reply.headers({ 'ratelimit': `"default";r=${remainingPoints};t=${Math.ceil(msBeforeNext / 1000)}`, 'ratelimit-policy': '"default";q=1000000000;w=3600' })
  const { version = '2' } = request.query as { version?: string }
  if (version !== '1' && version !== '2') return reply.code(400).send({ error: 'This version is not served.', code: 'version_unsupported' })
  return undefined
})
app.post<{ Body: Input }>('/reports', async (request, reply) => {
  const task = accept(request.body)
  return reply.code(202).headers({ ...acceptedHeaders(task), 'api-supported-versions': '2', 'api-deprecated-versions': '1' }).send(task)
})

await app.ready()
subject(app.server)
