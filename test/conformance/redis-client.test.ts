// What the store makes of a client that sends again, of a server that has lost its scripts, and of
// one that says nothing.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { Redis } from 'ioredis'
import { redis as redisParts, type RedisClient } from 'longhaul/redis'
import { RedisStore } from '../../adapters/redis/store.js'
import { redisForFile } from '../servers/redis-server.js'
import { eventually } from '../kit/wait.js'

const { url } = await redisForFile()
const redis = new Redis(url)
after(() => { redis.disconnect() })
const later = { ttlMs: 60_000 }

/** The real client, but for what `over` has. */
function clientWith(over: Partial<RedisClient>): RedisClient {
  const real: RedisClient = redis
  return {
    get: (key) => real.get(key),
    hmget: (...args) => real.hmget(...args),
    eval: (...args) => real.eval(...args),
    evalsha: (...args) => real.evalsha(...args),
    subscribe: (...args) => real.subscribe(...args),
    unsubscribe: (...args) => real.unsubscribe(...args),
    duplicate: (...args) => real.duplicate(...args),
    disconnect: () => undefined,
    ping: () => real.ping(),
    on: () => undefined,
    ...over,
  }
}

describe('a write whose response was lost, and which the client sends again', () => {
  const twice = clientWith({
    evalsha: async (sha, keys, ...args) => {
      await redis.evalsha(sha, keys, ...args)
      return redis.evalsha(sha, keys, ...args)
    },
  })

  test('is recognised by its revision', async () => {
    const plain = new RedisStore({ client: redis })
    const store = new RedisStore({ client: twice })
    // So that the server knows the script.
    const one = await plain.create('resent-1', 'a', later)
    await plain.replace('resent-1', 'b', one.created ? one.revision : '', later)
    const made = await store.create('resent-2', 'a', later)
    assert.equal(made.created, true)
    const now = await store.replace('resent-2', 'b', made.created ? made.revision : '', later)
    assert.equal(now.replaced, true)
    const entry = await plain.get('resent-2')
    assert.deepEqual([entry?.value, entry?.revision], ['b', now.replaced ? now.revision : ''])
    const late = await store.replace('resent-2', 'c', made.created ? made.revision : '', later)
    assert.equal(late.replaced, false, 'what is not ours is not')
    assert.equal((await store.create('resent-2', 'd', later)).created, false)
  })

  test('counts twice if the write is an increment', async () => {
    const plain = new RedisStore({ client: redis })
    await plain.increment('resent-3', 1, later)
    assert.equal((await new RedisStore({ client: twice }).increment('resent-3', 1, later)).value, 3)
  })
})

test('each command loads its script again on a server that has lost it', async () => {
  const store = new RedisStore({ client: redis })
  const made = await store.create('scripts', 'a', later)
  assert.ok(made.created)
  await redis.script('FLUSH')
  const now = await store.replace('scripts', 'b', made.revision, later)
  assert.ok(now.replaced)
  await redis.script('FLUSH')
  assert.equal((await store.increment('scripts', 2, later)).value, 2)
  await redis.script('FLUSH')
  assert.equal(await store.delete('scripts', made.revision), false)
  await redis.script('FLUSH')
  assert.equal(await store.delete('scripts', now.revision), true)
})

test('a server before Redis 6.0 is rejected at the first use, in one sentence', async () => {
  const client = clientWith({ info: async () => '# Server\r\nredis_version:5.0.14\r\nredis_mode:standalone\r\n' })
  const expected = {
    name: 'TypeError',
    message: 'redis: the server has the version 5.0.14, and must have 6.0 or later',
  }
  const { engine, store } = redisParts({ client, namespace: 'old' })
  for (const _ of 'twice') {
    await assert.rejects(store.get('a'), expected)
    await assert.rejects(Promise.resolve(engine.now()), expected)
  }
  await engine.close({ drainMs: 0 })
})

test('a user without the right to INFO uses any server', async () => {
  const store = new RedisStore({
    client: clientWith({ info: () => Promise.reject(new Error('NOPERM')) }),
    namespace: 'no-info',
  })
  assert.equal(await store.get('a'), undefined)
})

test('an error other than a missing script does not load the script again', async () => {
  let sources = 0
  const store = new RedisStore({
    client: clientWith({
      evalsha: () => Promise.reject(new Error('READONLY You can not write')),
      eval: () => {
        sources++
        return Promise.resolve([1])
      },
    }),
  })
  await assert.rejects(store.replace('x', 'a', 'r', later), { reason: 'unavailable' })
  assert.equal(sources, 0)
})

test('a silent server costs one deadline, and then one probe at a time until it replies', async () => {
  const asked: ((text: string | null) => void)[] = []
  const store = new RedisStore({
    timeoutMs: 200,
    client: clientWith({
      get: () =>
        new Promise((resolve) => {
          asked.push(resolve)
        }),
    }),
  })
  const began = performance.now()
  await assert.rejects(store.get('a'), { reason: 'unavailable' })
  assert.ok(performance.now() - began > 150, 'it was waited for')
  const probe = assert.rejects(store.get('b'), { reason: 'unavailable' })
  const others = Array.from({ length: 100 }, () => assert.rejects(store.get('c'), { reason: 'unavailable' }))
  assert.equal(asked.length, 2, 'all but one fail without being sent')
  await Promise.all(others)
  await probe
  const next = store.get('d')
  await eventually(() => asked.length === 3, 30_000, 'the next one is a probe again')
  asked[2]?.(null)
  assert.equal(await next, undefined)
  const [one, other] = [store.get('e'), store.get('f')]
  assert.equal(asked.length, 5, 'all are sent again')
  for (const answer of asked.slice(3)) answer(null)
  assert.deepEqual([await one, await other], [undefined, undefined])
})
