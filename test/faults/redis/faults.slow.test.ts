import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { Redis } from 'ioredis'
import { Client, type Answer } from '../../http/kit/reference.js'
import { startProcess, stopAfterwards } from '../../http/kit/process.js'
import { redisForFile } from '../../servers/redis-server.js'
import { TcpProxy } from '../../servers/tcp-proxy.js'
import { eventually, pause, within } from '../../kit/wait.js'

stopAfterwards()
const redis = await redisForFile(['--appendonly', 'yes', '--appendfsync', 'always'])
const proxy = await TcpProxy.to(redis.port)
after(() => { proxy.close() })
const admin = new Redis(redis.url, { retryStrategy: () => 50 })
admin.on('error', () => undefined)
after(() => { admin.disconnect() })

await redis.kill()
const server = startProcess({
  REDIS_URL: `redis://127.0.0.1:${String(proxy.port)}`,
  AUTH_TOKENS: 'writer-1=will:writer',
  RATE_LIMIT: '1000000',
})
const client = new Client(await server.url())

/** Every kind of request that needs Redis, at once, gets its 503 while Redis is unavailable. */
async function refused(code: RegExp = /^(store_unavailable|service_unavailable)$/): Promise<void> {
  const answers = await within(
    Promise.all([
      client.submit('wait', { ms: 0 }),
      client.submit('wait', { ms: 0 }, { headers: { 'idempotency-key': `key-${String(performance.now())}` } }),
      client.ask('GET', '/api/status/unknown'),
      client.ended('/api/status/unknown'),
      client.ask('DELETE', '/api/status/unknown'),
    ]),
    60_000,
    'No response',
  )
  for (const answer of answers) {
    if (code.source === 'store_full' && answer.status === 404) continue
    assert.equal(answer.status, 503, answer.text)
    assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/)
    assert.match(answer.json.code, code)
    assert.doesNotMatch(answer.text, /redis|127\.0|ECONN|bullmq|\bOOM\b/i)
  }
}

async function works(): Promise<Answer> {
  await eventually(
    async () => (await client.ask('GET', '/api/status/unknown')).status === 404,
    15_000,
    'the server finds Redis again',
  )
  let accepted = await client.submit('wait', { ms: 0 })
  for (let tried = 0; accepted.status === 503 && tried < 20; tried++) {
    await pause(100)
    accepted = await client.submit('wait', { ms: 0 })
  }
  assert.equal(accepted.status, 202, accepted.text)
  const final = await client.ended(accepted.headers.get('location') ?? '')
  assert.equal(final.json?.status, 'completed', final.text)
  return final
}

async function begun(ms: number): Promise<string> {
  const { status, headers, text } = await client.submit('wait', { ms })
  assert.equal(status, 202, text)
  return headers.get('location') ?? ''
}

async function survives(path: string): Promise<void> {
  let final = await client.ended(path)
  for (let tried = 0; tried < 40 && (final.status === 503 || final.json?.status === 'processing'); tried++) {
    await pause(250)
    final = await client.ended(path)
  }
  assert.equal(final.json?.status, 'completed', final.text)
}

describe('a server on Redis', () => {
  after(() => {
    assert.equal(server.child.exitCode, null, server.err)
    assert.doesNotMatch(server.err, /unhandled/i)
  })

  test('starts while Redis is down, rejects requests, and serves once Redis is up', async () => {
    await refused()
    await redis.run()
    await works()
  })

  test('rejects requests while Redis is frozen for 5 s, and loses nothing', async () => {
    const path = await begun(2000)
    redis.freeze()
    // However long the refusals take on this machine, Redis answers after them.
    await Promise.all([refused(), pause(5000)])
    redis.thaw()
    await survives(path)
    await works()
  })

  test('keeps what was accepted if Redis is killed and restarted', async () => {
    const running = await begun(1500)
    const ended = (await works()).json
    await redis.kill()
    await refused()
    await redis.run()
    await survives(running)
    assert.equal((await client.ask('GET', `/api/status/${String(ended.taskId)}`)).json.status, 'completed')
    await works()
  })

  test('serves more slowly if Redis responds after 150 ms', async () => {
    proxy.latencyMs = 150
    await works()
    proxy.latencyMs = 0
  })

  test('rejects requests in time while Redis is unreachable, and serves when it is reachable again', async () => {
    const path = await begun(500)
    proxy.swallow()
    await refused()
    await refused()
    proxy.heal()
    await survives(path)
    await works()
  })

  test('responds to writes with 503 and to reads with 200 while Redis is full, and accepts writes when there is room', async () => {
    const {
      json: { taskId },
    } = await works()
    await admin.config('SET', 'maxmemory', '1')
    await refused(/store_full/)
    assert.equal((await client.ask('GET', `/api/status/${String(taskId)}`)).json.status, 'completed')
    await admin.config('SET', 'maxmemory', '0')
    await works()
  })

  test('responds with 404 for earlier tasks after Redis was flushed, and accepts new tasks', async () => {
    const { json: { taskId } } = await works()
    const running = await begun(400)
    await admin.flushall()
    assert.equal((await client.ask('GET', `/api/status/${String(taskId)}`)).status, 404)
    assert.equal((await client.ask('GET', running)).status, 404)
    await works()
  })

  test('connects again after Redis has dropped all clients, and responds to waiting requests', async () => {
    const path = await begun(1500)
    const waiting = client.ended(path)
    await pause(300)
    for (const type of ['normal', 'pubsub'] as const) await admin.call('CLIENT', 'KILL', 'TYPE', type, 'SKIPME', 'yes')
    assert.equal((await waiting).json.status, 'completed')
    await works()
  })
})
